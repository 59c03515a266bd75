"""Schedules as values: timetables with their ticks, catching up after downtime, definitions.
No I/O but the time zone database. Every package above the domain may import it.
"""
