"""`headway worker --http`: serves a worker's metrics and health."""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator
from contextlib import contextmanager

import click

from headway.app import Headway
from headway.observers.worker_endpoint import WorkerEndpoint
from headway.runtime.process_number import process_number
from headway.worker.worker import Worker

Page = Callable[[], tuple[str, bytes]]
_log = logging.getLogger("headway")


def parse_address(text: str) -> tuple[str, int]:
    """`HOST:PORT`, or a port of this machine alone. The second of several processes takes the next
    port, and so on."""
    host, _, port = text.rpartition(":")
    if not port.isdecimal() or int(port) > 65_535:
        raise click.UsageError(f"--http takes HOST:PORT, such as 127.0.0.1:9464, not {text!r}")
    shifted = int(port) + process_number() - 1 if int(port) else 0
    return host.strip("[]") or "127.0.0.1", shifted


def metrics_page(app: Headway) -> Page | None:
    """Makes the page of metrics; None where Prometheus' client is not installed."""
    try:
        from headway.observers import prometheus  # noqa: PLC0415 - an extra
    except ModuleNotFoundError as error:
        _log.warning("there are no metrics here: %s", error)
        return None
    observer = app.observers.find(prometheus.PrometheusObserver)
    if observer is None:
        observer = prometheus.PrometheusObserver()
        app.observers.add(observer)
    return prometheus.exposition(
        observer,
        prometheus.QueueCollector(app.store),
        prometheus.ObserverCollector(app.observers),
    )


@contextmanager
def metrics_server(worker: Worker, address: tuple[str, int], page: Page | None) -> Generator[None]:
    """Serves while the block runs."""
    host, port = address
    endpoint = WorkerEndpoint(host, port, lambda: worker.health, page)
    try:
        endpoint.start()
    except OSError as error:
        raise click.ClickException(f"cannot serve on {host}:{port}: {error.strerror}") from error
    pages = "/livez and /readyz" if page is None else "/metrics, /livez and /readyz"
    _log.info("%s are on http://%s:%d", pages, host, endpoint.port)
    try:
        yield
    finally:
        endpoint.stop()
