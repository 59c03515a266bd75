"""A store on Django's connection of the current thread: in its open transaction, or a new one."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from django.db import DatabaseError, connections
from django.db.transaction import atomic

from headway.errors import ConfigurationError, SchemaMissing
from headway.ports.statement import Operation
from headway.stores.sql.caller_transaction import is_missing_column, layers

P = ParamSpec("P")
T = TypeVar("T")

if TYPE_CHECKING:
    from headway.stores.sql.caller_transaction import CallerTransactions as _Base
else:
    _Base = object


class DjangoConnectionStore(_Base):
    """Mixed into a SQL store, which then needs no connections of its own."""

    using: str

    async def open(self, *, migrate: bool = False) -> None:
        """Nothing to open."""

    async def close(self) -> None:
        """Nothing to close."""

    def run_sync(
        self, operation: Callable[P, Operation[T]], /, *args: P.args, **kwargs: P.kwargs
    ) -> T:
        connection: Any = connections[self.using]
        try:
            if connection.in_atomic_block:
                return self.run_in_sync(connection, operation, *args, **kwargs)
            with atomic(using=self.using):
                return self.run_in_sync(connection, operation, *args, **kwargs)
        except SchemaMissing as error:
            raise ConfigurationError(
                f"Django's database {self.using!r} has no Headway tables, or those of an older "
                "version; put 'headway.django' into INSTALLED_APPS and run `manage.py migrate`"
            ) from error
        except DatabaseError as error:
            if any(map(is_missing_column, layers(error))):
                raise ConfigurationError(
                    f"the Headway tables in Django's database {self.using!r} are of an older "
                    "version; run `manage.py migrate`"
                ) from error
            raise
