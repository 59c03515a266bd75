"""Forked processes: connections, threads and locks begin anew in the child.

A child inherits its parent's connections and must not use them: the two processes would read each
other's answers, and closing a connection would close it for the parent. The parent's threads do
not exist in the child, and locks that they held at the fork stay locked. So every object with
connections, threads or locks is reset in the child. Its old attributes are kept, unused, because
deleting them would close the parent's connections.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import threading
import weakref
from typing import Any

_forkables: weakref.WeakValueDictionary[int, Forkable] = weakref.WeakValueDictionary()
_inherited: list[dict[str, Any]] = []
_one_at_a_time = threading.Lock()


class Forkable:
    """Something that a forked process cannot use as it is."""

    def watch_forks(self) -> None:
        """Be told of forks from now on."""
        _forkables[id(self)] = self

    def before_fork(self) -> None:
        """In the parent. Returns when it may be forked."""

    def after_fork(self) -> None:
        """In the parent: go on."""

    def in_child(self) -> None:
        """In the child: be as if never opened, with locks of its own."""
        raise NotImplementedError


def _all() -> list[Forkable]:
    # A list of references is made at once, whatever other threads add meanwhile.
    return [each for ref in _forkables.valuerefs() if (each := ref()) is not None]


def _before() -> None:
    _one_at_a_time.acquire()
    for each in _all():
        each.before_fork()


def _after_in_parent() -> None:
    for each in _all():
        each.after_fork()
    _one_at_a_time.release()


def _after_in_child() -> None:
    found = _all()
    _inherited.extend(dict(vars(each)) for each in found)
    for each in found:
        each.in_child()
    _keep_for_ever(_inherited)
    _one_at_a_time.release()


def _keep_for_ever(thing: object) -> None:
    """Also when the interpreter ends, and throws away everything else."""
    with contextlib.suppress(ImportError):
        ctypes = importlib.import_module("ctypes")
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(thing))


# Handlers registered last are called first. Those of executors and logging take a lock until after
# the fork, so both are imported first: else the work that `before_fork` waits for, such as a
# transaction that is committed in a thread, would wait for that lock.
if hasattr(os, "register_at_fork"):
    for name in ("concurrent.futures.thread", "logging"):
        importlib.import_module(name)
    os.register_at_fork(
        before=_before, after_in_parent=_after_in_parent, after_in_child=_after_in_child
    )
