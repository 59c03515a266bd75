"""The names that users import, as reprs, error types and pickles show them."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterable
from dataclasses import fields, is_dataclass
from typing import Any, get_type_hints


def publish(module: str, names: Iterable[str]) -> None:
    """Let these classes and functions of a public module name that module as theirs, instead of the
    private module that defines them."""
    namespace = vars(sys.modules[module])
    for name in names:
        public: Any = namespace[name]
        if isinstance(public, type):
            _resolve_annotations(public)
        public.__module__ = module


def _resolve_annotations(cls: type) -> None:
    """Annotations are text, to be read in the module of the class: the one it is about to leave."""
    own = inspect.get_annotations(cls)
    if own:
        hints = get_type_hints(cls, include_extras=True)
        cls.__annotations__ = {name: hints[name] for name in own}
        if is_dataclass(cls):
            for field in fields(cls):
                field.type = hints[field.name]
