"""Log lines that name the job they belong to, wherever the handler runs."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest

from headway import Fixed, Headway
from headway.observers.log_formats import FIELDS, JobFields, JsonFormatter, LineFormatter
from headway.observers.trace_context import TraceContext, encode_trace

log = logging.getLogger("tests.formats")
app = Headway("memory://")


@app.job(queue="mail", max_attempts=2, retry=Fixed(0))
async def on_loop() -> None:
    log.warning("on the loop")
    raise ValueError("twice")


@app.job
def in_thread() -> None:
    log.warning("in a thread", extra={"own": {"a": 1}})


class Sink(logging.Handler):
    """A handler with the filter, beside the others."""

    def __init__(self, formatter: logging.Formatter) -> None:
        super().__init__()
        self.addFilter(JobFields())
        self.setFormatter(formatter)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(self.format(record))


@pytest.fixture
def sinks() -> Iterator[tuple[Sink, Sink]]:
    found = Sink(JsonFormatter()), Sink(LineFormatter())
    for sink in found:
        log.addHandler(sink)
    yield found
    for sink in found:
        log.removeHandler(sink)


async def test_lines_of_handlers_name_their_job(sinks: tuple[Sink, Sink]) -> None:
    before = logging.getLogRecordFactory()
    async with app:
        first = await app.start(on_loop.request())
        second = await app.start(in_thread.request())
        await app.worker(worker_id="w").run(drain=True)
    log.warning("outside")
    assert logging.getLogRecordFactory() is before
    as_json = sorted((json.loads(text) for text in sinks[0].lines), key=lambda line: line["time"])
    of_first = [line for line in as_json if line.get("job_id") == first.id]
    assert [line["attempt"] for line in of_first] == [1, 2]
    assert of_first[0] == {
        "time": of_first[0]["time"],
        "level": "warning",
        "logger": "tests.formats",
        "message": "on the loop",
        "job_id": first.id,
        "job_type": "on_loop",
        "queue": "mail",
        "sequence_id": first.id,
        "attempt": 1,
        "worker": "w",
    }
    (of_second,) = [line for line in as_json if line.get("job_id") == second.id]
    assert (of_second["message"], of_second["own"]) == ("in a thread", {"a": 1})
    assert as_json[-1]["message"] == "outside"
    assert not as_json[-1].keys() & set(FIELDS)
    assert any(
        text.endswith(f"WARNING in a thread  [in_thread {second.id} attempt 1]")
        for text in sinks[1].lines
    )
    assert sinks[1].lines[-1].endswith("WARNING outside")


def record(**fields: Any) -> logging.LogRecord:
    return logging.makeLogRecord({"msg": "hello %s", "args": ("you",), "levelno": 30, **fields})


def test_json_takes_whatever_it_is_given() -> None:
    class Odd:
        def __repr__(self) -> str:
            return "<odd>"

    try:
        raise KeyError("x")
    except KeyError as error:
        found = record(exc_info=(KeyError, error, error.__traceback__), thing=Odd(), bad="\ud800")
    line = JsonFormatter().format(found)
    assert "\n" not in line
    read = json.loads(line)
    assert read["message"].strip("'") == "hello you"
    assert "odd" in read["thing"]
    assert "KeyError: 'x'" in read["traceback"].replace("\\'", "'")


def test_fields_that_a_record_has_stay_as_they_are() -> None:
    found = record(job_id="mine")
    assert JobFields().filter(found)
    assert found.__dict__["job_id"] == "mine"
    assert all(found.__dict__[name] is None for name in FIELDS if name != "job_id")


async def test_the_trace_id_is_the_producers_where_the_worker_does_not_trace(
    sinks: tuple[Sink, Sink],
) -> None:
    from headway.jobs.plan import plan_start

    trace = "4bf92f3577b34da6a3ce929d0e0e4736"
    plan = plan_start([in_thread.request()])
    plan.carry(encode_trace(TraceContext(f"00-{trace}-00f067aa0ba902b7-01")))
    async with app:
        await app.store.run(app.store.insert, plan.jobs)
        await app.worker().run(drain=True)
    assert json.loads(sinks[0].lines[0])["trace_id"] == trace
    assert sinks[1].lines[0].endswith(f"attempt 1 trace {trace}]")


def test_the_formatter_writes_tracebacks_after_the_line() -> None:
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(LineFormatter())
    handler.addFilter(JobFields())
    handler.handle(record(exc_text="Traceback …\nKeyError", job_id="1", job_type="x", attempt=1))
    first, *rest = stream.getvalue().splitlines()
    assert first.endswith("hello you  [x 1 attempt 1]")
    assert rest == ["Traceback …", "KeyError"]
