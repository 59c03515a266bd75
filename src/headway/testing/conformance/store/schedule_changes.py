"""x"""

from headway.testing.conformance.store.kit import StoreCases

case = StoreCases("schedule_changes")
