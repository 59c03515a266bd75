"""Something is done between two statements of something else, by another connection."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from typing import Any

import psycopg

from headway.ports.statement import Operation


def interrupted(
    operation: Operation[Any], place: int, action: Callable[[], None]
) -> Operation[bool]:
    """Do something before the statement at this place; False if there is none."""
    answer: Any = None
    for number in itertools.count():
        try:
            statement = operation.send(answer)
        except StopIteration:
            return number > place
        if number == place:
            action()
        answer = yield statement
    raise AssertionError


class Others:
    """What is done by others meanwhile, in threads; whoever waits for a lock is left to wait."""

    def __init__(self, url: str) -> None:
        self._looking = psycopg.connect(url, autocommit=True)
        self._threads: list[threading.Thread] = []
        self.errors: list[BaseException] = []

    def close(self) -> None:
        self._looking.close()

    def act(self, action: Callable[[], object]) -> None:
        """Returns when the action is done, or waits for a lock."""

        def run() -> None:
            try:
                action()
            except BaseException as error:
                self.errors.append(error)

        thread = threading.Thread(target=run)
        self._threads.append(thread)
        thread.start()
        while thread.is_alive() and not self._someone_waits():
            thread.join(0.005)

    def end(self) -> None:
        """Wait for all of them; what they met is raised."""
        for thread in self._threads:
            thread.join()
        self._threads.clear()
        if self.errors:
            raise self.errors.pop()

    def _someone_waits(self) -> bool:
        row = self._looking.execute(
            "select count(*) from pg_stat_activity"
            " where wait_event_type = 'Lock' and datname = current_database()"
        ).fetchone()
        return row is not None and row[0] > 0
