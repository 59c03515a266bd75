"""An event loop in a thread, for what blocking callers need one for: opening and closing."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class _Threads(ThreadPoolExecutor):
    """While the interpreter ends, no thread can be started, but connections must be closed and
    notifications sent: then the calling thread does the work."""

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        try:
            return super().submit(fn, *args, **kwargs)
        except RuntimeError:
            done: Future[T] = Future()
            try:
                done.set_result(fn(*args, **kwargs))
            except Exception as error:
                done.set_exception(error)
            return done


class Portal:
    """Runs coroutines for threads that have no loop. The loop lives until `close`, because
    connections must be closed on the loop that opened them."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._threads = _Threads(thread_name_prefix="headway-sync")
        self._loop.set_default_executor(self._threads)
        self._thread = threading.Thread(target=self._run, name="headway-sync", daemon=True)
        self._thread.start()

    def call(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run the coroutine on the loop; its result."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()

    def close(self) -> None:
        """Closing twice is fine."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
        finally:
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
            self._threads.shutdown()
            self._loop.close()
