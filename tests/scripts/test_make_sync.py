"""The sync client is what scripts/make_sync.py makes of the async one."""

from __future__ import annotations

from scripts.make_sync import sync_sources


def test_the_sync_client_is_up_to_date() -> None:
    for path, text in sync_sources().items():
        assert path.read_text("utf-8") == text, "run `make sync`"
