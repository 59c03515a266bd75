"""app.queue: limits that are declared in code."""

from __future__ import annotations

from typing import Any

import pytest

from headway import Headway, Rate
from headway.domain.limits.queue_limits import QueueLimits
from headway.errors import ConfigurationError, HeadwayError, InvalidName, InvalidOption
from headway.jobs.registry import Registry


@pytest.fixture
def app() -> Headway:
    return Headway("memory://")


def test_declared_limits_are_those_of_the_registry(app: Headway) -> None:
    app.queue("models", running=40, per_key=2, rate=Rate(90, per=60, burst=10), fair=True)
    app.queue("weighted", fair=True, weights={"tenant-7": 3})
    app.queue("free")
    assert app.registry.queues() == {
        "models": QueueLimits(running=40, per_key=2, rate=Rate(90, per=60, burst=10), fair=True),
        "weighted": QueueLimits(fair=True, weights={"tenant-7": 3}),
        "free": QueueLimits(),
    }
    with pytest.raises(TypeError):
        app.registry.queues()["other"] = QueueLimits()  # type: ignore[index]


def test_the_same_declaration_twice_is_fine(app: Headway) -> None:
    for _ in range(2):
        app.queue("models", running=5, rate=Rate(90, per=60))
    app.queue("models", rate=Rate(90, per=60.0), running=5, fair=False, weights={})
    assert len(app.registry.queues()) == 1


def test_two_declarations_that_differ_are_refused(app: Headway) -> None:
    app.queue("models", running=5)
    with pytest.raises(ConfigurationError) as caught:
        app.queue("models", running=6, fair=True)
    assert str(caught.value) == (
        "queue 'models' is declared twice: with 5 running, and with 6 running; fair; keep one of "
        "the declarations"
    )
    with pytest.raises(ConfigurationError, match="with 5 running, and with no limits"):
        app.queue("models")
    assert app.registry.queues()["models"] == QueueLimits(running=5)


def test_two_declarations_that_differ_in_weights_alone_are_told_apart() -> None:
    registry = Registry()
    registry.add_queue("q", QueueLimits(fair=True, weights={"a": 2}))
    with pytest.raises(ConfigurationError) as caught:
        registry.add_queue("q", QueueLimits(fair=True, weights={"a": 3}))
    assert "with fair (weights: a 2), and with fair (weights: a 3)" in str(caught.value)


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "unknown": ({"concurrency": 5}, "app.queue has no option 'concurrency'; it has running, per"),
    "near": ({"rate_limit": 5}, "app.queue has no option 'rate_limit'"),
    "running": ({"running": 0}, "running must be at least 1; to start nothing, pause the queue"),
    "rate": ({"rate": 90}, "rate must be made with Rate, not int"),
    "weights": ({"weights": {"a": 2}}, "weights need fair=True"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_bad_options_are_refused(app: Headway, name: str) -> None:
    options, said = REFUSED[name]
    with pytest.raises(InvalidOption) as caught:
        app.queue("models", **options)
    assert said in str(caught.value)
    assert app.registry.queues() == {}


@pytest.mark.parametrize("name", ["", "with space", "x" * 201, 5, None])
def test_a_bad_name_is_refused(app: Headway, name: Any) -> None:
    with pytest.raises(InvalidName):
        app.queue(name, running=5)
    assert app.registry.queues() == {}


def test_errors_are_headways_own(app: Headway) -> None:
    for options in ({"running": -1}, {"rate": None, "fair": "yes"}):
        with pytest.raises(HeadwayError):
            app.queue("models", **options)  # type: ignore[arg-type]


def test_limits_of_a_queue_that_no_job_type_uses_are_pointed_out(
    caplog: pytest.LogCaptureFixture,
) -> None:
    app = Headway("memory://")
    app.queue("apis", running=2)

    @app.job(queue="api")
    async def call() -> None: ...

    app.worker()
    (said,) = [record.getMessage() for record in caplog.records]
    assert said == (
        "app.queue('apis') declares limits, and no job type of this app uses that queue; "
        "did you mean 'api'?"
    )
    caplog.clear()
    app.queue("api", running=2)
    app.worker(queues=["api", "apis"])
    assert not caplog.records
