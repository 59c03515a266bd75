"""What the Tasks framework promises of a backend, run by Django on a real database."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from io import StringIO
from typing import Any
from unittest import skipUnless
from unittest.mock import patch

import psycopg
import pytest
from asgiref.sync import async_to_sync
from django.core.management import call_command
from django.db import OperationalError, connection, transaction
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder
from django.test import SimpleTestCase, TransactionTestCase, override_settings
from django.utils import timezone
from shop.models import Order

from headway import Dedup, Fixed
from headway.django import app
from headway.django.database import checked_path, postgres_dsn
from headway.django.project import DjangoHeadway, described_app
from headway.django.task_settings import framework_module, is_used
from headway.django.tasks import HeadwayBackend, task_type
from headway.errors import ConfigurationError, InvalidOption
from headway.stores.postgres.migrate import IndexBuild
from headway.stores.sql.sql_files import load_migrations
from tests.frameworks.contract import tasks
from tests.frameworks.contract.jobs import elsewhere, on_the_loop
from tests.frameworks.contract.late import hidden, late, misnamed
from tests.frameworks.contract.settings import TASKS
from tests.frameworks.contract.tasks import (
    echo,
    fail,
    fail_on_a_loop,
    later,
    ran,
    third_time,
    unspeakable,
)

exceptions: Any = framework_module("exceptions")
signals: Any = framework_module("signals")
InvalidTask: Any = getattr(exceptions, "InvalidTask", None) or exceptions.InvalidTaskError
STORE = "postgres" if connection.vendor == "postgresql" else "sqlite"
UNKNOWN = "01a1ddf9-eb4e-7466-a684-f7abe7b3714b"


class OwnBackend(HeadwayBackend):
    pass


class Contract(TransactionTestCase):
    def setUp(self) -> None:
        ran.clear()

    def drain(self) -> None:
        call_command("headway", "worker", "--drain", "--concurrency", "1")

    def test_a_result_from_ready_to_successful(self) -> None:
        result = echo.enqueue(1, "two", three=[3, None])
        assert (result.status, result.attempts, result.errors) == ("READY", 0, [])
        assert result.enqueued_at is not None
        assert not result.is_finished
        self.drain()
        found = echo.get_result(result.id)
        assert found.status == "SUCCESSFUL"
        assert found.return_value == [[1, "two"], {"three": [3, None]}]
        assert found.args == [1, "two"]
        assert found.attempts == 1
        assert found.started_at is not None
        assert found.finished_at is not None
        assert found.task == echo
        with pytest.raises(exceptions.TaskResultMismatch):
            later.get_result(result.id)

    def test_enqueued_in_a_transaction(self) -> None:
        with transaction.atomic():
            undone = echo.enqueue("undone")
            with transaction.atomic():
                inner = echo.enqueue("inner")
            assert echo.get_result(inner.id).status == "READY"
            transaction.set_rollback(True)
        with transaction.atomic():
            echo.enqueue("kept")
        self.drain()
        assert ran == ["kept"]
        with pytest.raises(exceptions.TaskResultDoesNotExist):
            echo.get_result(undone.id)

    def test_what_is_not_a_result(self) -> None:
        for unknown in (UNKNOWN, "nonsense"):
            with pytest.raises(exceptions.TaskResultDoesNotExist):
                echo.get_result(unknown)

    def test_the_traceback_of_an_async_task_begins_in_it(self) -> None:
        result = fail_on_a_loop.enqueue()
        self.drain()
        result.refresh()
        (error,) = result.errors
        assert f'File "{tasks.__file__}"' in error.traceback.splitlines()[1]

    def test_a_failure(self) -> None:
        result = fail.enqueue()
        self.drain()
        result.refresh()
        assert result.status == "FAILED"
        (error,) = result.errors
        assert error.exception_class is ZeroDivisionError
        assert "on purpose" in error.traceback
        assert f'File "{tasks.__file__}"' in error.traceback.splitlines()[1]
        assert result.attempts == 1
        with pytest.raises(ValueError, match="Task failed"):
            _ = result.return_value

    def test_retries_and_context(self) -> None:
        handler = app.registry.handler(task_type(third_time).name)
        assert handler is not None
        before = handler.retry
        object.__setattr__(handler, "retry", Fixed(0))
        try:
            result = third_time.enqueue()
            self.drain()
        finally:
            object.__setattr__(handler, "retry", before)
        result.refresh()
        assert result.return_value == [3, result.id]
        assert [error.exception_class for error in result.errors] == [LookupError] * 2
        assert result.attempts == 3

    def test_a_task_is_a_job_type_of_its_own_name(self) -> None:
        echo.enqueue("named")
        later.using(queue_name="other").enqueue(1)
        late.enqueue("late")
        named = {f"tests.frameworks.contract.tasks.{name}" for name in ("echo", "later", "fail")}
        assert named <= set(app.handlers())
        listed = [job.type for job in app.sync.list().jobs]
        assert listed == [
            "django.task",
            "tests.frameworks.contract.tasks.later",
            "tests.frameworks.contract.tasks.echo",
        ]
        self.drain()
        assert ran == ["named", "late"]
        assert {job.state for job in app.sync.list().jobs} == {"completed"}

    def test_a_job_that_is_no_task_has_no_result(self) -> None:
        started = app.sync.start(on_the_loop.request())
        with pytest.raises(exceptions.TaskResultDoesNotExist):
            echo.get_result(started.id)

    def test_a_task_that_no_worker_could_import_is_refused(self) -> None:
        with pytest.raises(ConfigurationError, match=r"late\.hidden is not a task but a function"):
            misnamed.enqueue()
        with (
            patch.object(hidden, "__module__", "__main__"),
            pytest.raises(ConfigurationError, match="is defined in a script, which workers"),
        ):
            misnamed.enqueue()
        assert app.sync.list().jobs == []

    def test_a_task_that_is_gone_is_a_failure_that_says_so(self) -> None:
        result = late.enqueue("gone")
        with patch("tests.frameworks.contract.late.late", None):
            self.drain()
        (error,) = app.sync.attempts(result.id)
        assert str(error.failure) == (
            "headway.errors.ConfigurationError: tests.frameworks.contract.late.late is not a task "
            "but a NoneType; give the task the name of its function, as @task does"
        )

    def test_priorities(self) -> None:
        for name, priority in (("low", -100), ("usual", 0), ("high", 100)):
            echo.using(priority=priority).enqueue(name)
        self.drain()
        assert ran == ["high", "usual", "low"]

    def test_run_after_out_of_reach(self) -> None:
        for moment in (datetime.max.replace(tzinfo=UTC), datetime.min.replace(tzinfo=UTC)):
            with pytest.raises(InvalidOption, match="between the years 1900 and 9000"):
                echo.using(run_after=moment).enqueue("never")

    def test_run_after(self) -> None:
        result = echo.using(run_after=timezone.now() + timedelta(hours=1)).enqueue("later")
        echo.using(run_after=timezone.now() - timedelta(hours=1)).enqueue("overdue")
        self.drain()
        assert ran == ["overdue"]
        result.refresh()
        assert result.status == "READY"
        assert echo.get_result(result.id).task == result.task
        assert result.task.run_after is not None

    def test_queues(self) -> None:
        echo.using(queue_name="other").enqueue("other")
        self.drain()
        assert ran == ["other"]
        with pytest.raises(InvalidTask):
            echo.using(queue_name="unknown")

    @override_settings(TASKS={"default": {"BACKEND": TASKS["default"]["BACKEND"], "QUEUES": []}})
    def test_any_queue_where_the_list_is_empty(self) -> None:
        echo.enqueue("usual")
        echo.using(queue_name="unheard-of").enqueue("unheard-of")
        assert {"default", "unheard-of"} <= set(app.worked_queues())
        self.drain()
        assert sorted(ran) == ["unheard-of", "usual"]

    @override_settings(TASKS={"default": {"BACKEND": f"{__name__}.OwnBackend", "QUEUES": ["own"]}})
    def test_a_subclass_of_the_backend(self) -> None:
        assert is_used()
        echo.using(queue_name="own").enqueue("own")
        self.drain()
        assert ran == ["own"]

    @override_settings(TASKS={"default": {"BACKEND": "nobody.knows.It"}})
    def test_a_backend_that_does_not_exist_is_not_ours(self) -> None:
        assert not is_used()

    def test_a_worker_in_a_thread(self) -> None:
        echo.enqueue("in a thread")
        thread = ThreadPoolExecutor(1)
        try:
            thread.submit(self.drain).result(timeout=30)
            with pytest.raises(SystemExit):
                thread.submit(call_command, "headway", "worker", "--processes", "2").result(30)
        finally:
            thread.shutdown()
        assert ran == ["in a thread"]

    def test_async_tasks_from_async_code(self) -> None:
        result = async_to_sync(later.aenqueue)(6)
        self.drain()
        assert async_to_sync(later.aget_result)(result.id).return_value == 7

    def test_arguments_that_are_not_json_start_nothing(self) -> None:
        with pytest.raises(TypeError):
            echo.enqueue(object())
        assert app.sync.list().jobs == []

    def test_a_value_that_is_not_json_is_a_failure(self) -> None:
        result = unspeakable.enqueue()
        self.drain()
        result.refresh()
        assert result.errors[0].exception_class is TypeError

    def test_signals(self) -> None:
        heard: list[tuple[str, str]] = []

        def hear(name: str) -> Any:
            def receive(sender: Any, task_result: Any, **_: Any) -> None:
                heard.append((name, task_result.status))

            return receive

        receivers = {name: hear(name) for name in ("enqueued", "started", "finished")}
        for name, receiver in receivers.items():
            getattr(signals, f"task_{name}").connect(receiver)
        echo.enqueue()
        self.drain()
        for name, receiver in receivers.items():
            getattr(signals, f"task_{name}").disconnect(receiver)
        assert heard == [("enqueued", "READY"), ("started", "RUNNING"), ("finished", "SUCCESSFUL")]


class Flushing(TransactionTestCase):
    """As after each test of a TransactionTestCase."""

    def flush(self, **options: Any) -> None:
        call_command("flush", interactive=False, verbosity=0, **options)

    def test_jobs_are_gone_and_the_schema_is_not(self) -> None:
        Order.objects.create(cents=1)
        app.sync.start(on_the_loop.request(), dedup=Dedup("once", scope="any"))
        call_command("headway", "worker", "--drain")
        app.sync.pause("default")
        for options in ({}, {"inhibit_post_migrate": True}):
            kept = app.sync.start(on_the_loop.request(), dedup=Dedup("once", scope="any"))
            self.flush(**options)
            assert app.sync.list().jobs == []
            assert app.sync.queues() == []
            assert Order.objects.count() == 0
        started = app.sync.start(on_the_loop.request(), dedup=Dedup("once", scope="any"))
        assert not started.deduplicated
        assert started.id != kept.id
        call_command("headway", "worker", "--drain")
        assert started.result(timeout=5) == 0

    def test_nothing_is_gone_if_people_say_no(self) -> None:
        started = app.sync.start(on_the_loop.request())
        with patch("builtins.input", return_value="no"):
            call_command("flush", stdout=StringIO())
        assert app.sync.get(started).state == "pending"

    def test_without_our_tables(self) -> None:
        call_command("migrate", "headway", "zero", verbosity=0)
        try:
            self.flush()
        finally:
            call_command("migrate", "headway", verbosity=0)
        assert app.sync.list().jobs == []


class Handlers(TransactionTestCase):
    def test_in_a_process_of_its_own_where_django_is_set_up(self) -> None:
        started = app.sync.start(elsewhere.request())
        call_command("headway", "worker", "--drain")
        pid, ready, has_models = started.result(timeout=60)
        assert pid != os.getpid()
        assert (ready, has_models) == (True, True)

    def test_on_the_event_loop_with_the_async_orm(self) -> None:
        Order.objects.create(cents=1)
        started = app.sync.start(on_the_loop.request())
        call_command("headway", "worker", "--drain")
        assert started.result(timeout=60) == 1

    def test_completing_without_a_worker_is_rolled_back_too(self) -> None:
        started = app.sync.start(on_the_loop.request())
        with transaction.atomic():
            with app.sync.complete_sequence(started) as completion:
                completion.complete(7)
            assert app.sync.get(started).state == "completed"
            transaction.set_rollback(True)
        assert app.sync.get(started).state == "pending"


class Waking(TransactionTestCase):
    @skipUnless(STORE == "postgres", "on SQLite workers look at the file")
    def test_workers_are_told_after_the_commit_on_djangos_connection(self) -> None:
        with psycopg.connect(postgres_dsn("default"), autocommit=True) as listener:
            listener.execute('listen "headway:headway:scheduled"')
            with transaction.atomic():
                app.sync.start(on_the_loop.request())
                assert list(listener.notifies(timeout=0.1)) == []
                transaction.set_rollback(True)
            assert list(listener.notifies(timeout=0.1)) == []
            with transaction.atomic():
                app.sync.start(on_the_loop.request())
                assert list(listener.notifies(timeout=0.1)) == []
            (told,) = listener.notifies(timeout=60, stop_after=1)
            assert '"on_the_loop"' in told.payload
            app.sync.start(on_the_loop.request())
            assert len(list(listener.notifies(timeout=60, stop_after=1))) == 1

    def test_a_notifier_that_is_named_is_told_after_the_commit(self) -> None:
        other = DjangoHeadway(notifier="local")
        published: list[Any] = []
        setattr(other.notifier, "publish_soon", published.extend)  # noqa: B010

        @other.job(name="named")
        def named() -> None: ...

        with other.sync as client:
            with transaction.atomic():
                client.start(named.request())
                assert published == []
                transaction.set_rollback(True)
            assert published == []
            with transaction.atomic():
                client.start(named.request())
                assert published == []
            assert len(published) == 1
            client.start(named.request())
            assert len(published) == 2


class Settings(SimpleTestCase):
    def test_an_unknown_option_is_refused(self) -> None:
        with (
            override_settings(HEADWAY={"USE": "default"}),
            pytest.raises(ConfigurationError, match="no option 'USE'; there are USING"),
        ):
            described_app.__wrapped__()

    def test_a_database_in_memory_has_no_place_for_workers(self) -> None:
        for name in (":memory:", "file:memorydb_default?mode=memory&cache=shared"):
            with pytest.raises(ConfigurationError, match="give it a file"):
                checked_path(name, "default")


class Migrations(TransactionTestCase):
    def test_there_and_back(self) -> None:
        assert connection.introspection.table_names()
        call_command("migrate", "headway", "zero", verbosity=0)
        with pytest.raises(ConfigurationError, match=r"manage\.py migrate"):
            echo.enqueue()
        call_command("migrate", "headway", verbosity=0)
        echo.enqueue()

    def test_tables_that_are_there_already_are_left_alone(self) -> None:
        kept = echo.enqueue()
        recorder = MigrationRecorder(connection)
        for label, name in recorder.applied_migrations():
            if label == "headway":
                recorder.record_unapplied(label, name)
        call_command("migrate", "headway", verbosity=0)
        assert echo.get_result(kept.id).status == "READY"

    def test_tables_of_an_older_version_name_the_command(self) -> None:
        call_command("migrate", "headway", "zero", verbosity=0)
        call_command("migrate", "headway", "0001", verbosity=0)
        with pytest.raises(ConfigurationError, match=r"of an older version; run `manage\.py migr"):
            echo.enqueue()
        with pytest.raises(ConfigurationError, match=r"of an older version.* run `manage\.py migr"):
            app.sync.schedules.list()
        call_command("migrate", "headway", verbosity=0)
        echo.enqueue()

    @skipUnless(STORE == "postgres", "SQLite has one lock, which nobody keeps for long")
    def test_jobs_run_while_a_transaction_is_in_the_way(self) -> None:
        call_command("migrate", "headway", "zero", verbosity=0)
        call_command("migrate", "headway", "0001", verbosity=0)
        with psycopg.connect(postgres_dsn(connection.alias)) as other:
            other.execute("select count(*) from headway.job")

            def let_jobs_run(_seconds: float) -> None:
                with psycopg.connect(postgres_dsn(connection.alias)) as third:
                    third.execute("set lock_timeout = '10s'")
                    third.execute("update headway.job set priority = 1")
                other.rollback()

            with patch("headway.django.schema.time.sleep", let_jobs_run):
                call_command("migrate", "headway", verbosity=0)
            other.execute("select schedule from headway.job")
        echo.enqueue()

    @skipUnless(STORE == "postgres", "SQLite has one lock, which nobody keeps for long")
    def test_a_transaction_that_stays_in_the_way_is_an_error(self) -> None:
        call_command("migrate", "headway", "zero", verbosity=0)
        call_command("migrate", "headway", "0001", verbosity=0)
        with psycopg.connect(postgres_dsn(connection.alias)) as other:
            other.execute("select count(*) from headway.job")
            with (
                patch("headway.stores.postgres.migrate.PATIENCE", 0.0),
                pytest.raises(OperationalError, match="lock timeout"),
            ):
                call_command("migrate", "headway", verbosity=0)
        call_command("migrate", "headway", verbosity=0)
        echo.enqueue()

    def test_tables_of_the_release_before_are_brought_up_to_date(self) -> None:
        call_command("migrate", "headway", "zero", verbosity=0)
        call_command("migrate", "headway", "0002", verbosity=0)
        plan = StringIO()
        call_command("migrate", "headway", plan=True, stdout=plan)
        assert [line for line in plan.getvalue().splitlines() if line.startswith("headway")] == [
            "headway.0003_limits",
            "headway.0004_keys",
        ]
        call_command("migrate", "headway", verbosity=0)
        call_command("migrate", "headway", check_unapplied=True, verbosity=0)
        call_command("makemigrations", "headway", check_changes=True, verbosity=0)
        echo.enqueue()

    @skipUnless(STORE == "postgres", "SQLite builds an index in a transaction")
    def test_an_index_is_built_while_jobs_start(self) -> None:
        call_command("migrate", "headway", "zero", verbosity=0)
        call_command("migrate", "headway", "0003", verbosity=0)
        valid = "select indisvalid from pg_index where indexrelid = 'headway.job_keyed'::regclass"
        with psycopg.connect(postgres_dsn(connection.alias)) as other:
            other.execute("lock table headway.job in row exclusive mode")  # as starts do
            with connection.cursor() as cursor:
                cursor.execute("set statement_timeout = '200ms'")
                with pytest.raises(OperationalError, match="statement timeout"):
                    call_command("migrate", "headway", verbosity=0)
                cursor.execute("set statement_timeout = 0")
            assert other.execute(valid).fetchone() == (False,), "it did not wait for the table"
        call_command("migrate", "headway", verbosity=0)
        with connection.cursor() as cursor:
            cursor.execute(valid)
            assert cursor.fetchone() == (True,)
        echo.enqueue()

    @skipUnless(STORE == "postgres", "SQLite builds an index in a transaction")
    def test_no_step_is_recorded_without_its_index(self) -> None:
        call_command("migrate", "headway", "zero", verbosity=0)
        call_command("migrate", "headway", "0003", verbosity=0)
        nothing = IndexBuild("select 1", "select 1", "select 1")
        with (
            patch("headway.stores.postgres.migrate.index_build", lambda *_: nothing),
            pytest.raises(OperationalError, match=r"run `manage\.py migrate` again"),
        ):
            call_command("migrate", "headway", verbosity=0)
        call_command("migrate", "headway", verbosity=0)
        echo.enqueue()

    def test_as_sql(self) -> None:
        for step in ("0001", "0004"):
            script = StringIO()
            call_command("sqlmigrate", "headway", step, stdout=script)
            assert f"({int(step)}, '{step}_" in script.getvalue().replace("select 4", "(4")

    def test_every_step_of_the_stores_has_its_migration(self) -> None:
        steps = {step.version for step in load_migrations(f"headway.stores.{STORE}", "")}
        found = MigrationLoader(None, ignore_no_migrations=True).disk_migrations
        operations = [
            getattr(operation, "version")  # noqa: B009
            for (label, _), migration in found.items()
            if label == "headway"
            for operation in migration.operations
        ]
        assert set(operations) >= steps, "add a migration to headway/django/migrations"
