"""`make bench-peers`: Headway, other queues and the raw statements, interleaved, in one run.

    make bench-peers                                      # all of it; an hour and more
    make bench-peers ARGS="--quick --peers headway-postgres,pgqueuer"

Needs the package registry the first time: every queue gets an environment of its own.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shlex
import signal
import statistics
import sys
import tempfile
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any, NoReturn

import psycopg

from benchmarks.peers.contract import payload
from benchmarks.peers.environments import Environment, environments_by_peer
from benchmarks.peers.location import Location, Valkey
from benchmarks.peers.measurements import METRICS, Amounts, Measurements
from benchmarks.peers.processes import ActionFailed, Runner
from benchmarks.peers.report import markdown, plot
from tests.support.servers.brokers import ValkeyServer
from tests.support.servers.postgres import PostgresServer

POSTGRES_SETTINGS = {"fsync": "on", "synchronous_commit": "on", "full_page_writes": "on"}
VALKEY_SETTINGS = {"save": "", "appendonly": "no"}
"""Nothing is written to disk, which is how queues on Redis are usually run: a crash of the server
loses every job."""
QUICK = Amounts(jobs=500, large=1000, seconds=0.5, limit=5.0, load_limit=5.0, waits=30)
BEGAN = time.monotonic()


def say(text: str) -> None:
    minutes, seconds = divmod(int(time.monotonic() - BEGAN), 60)
    print(f"{minutes:3}:{seconds:02} {text}", file=sys.stderr, flush=True)


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    known = environments_by_peer()
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.peers",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="measurements: " + "; ".join(f"{key} {what}" for key, what in METRICS.items()),
    )
    parser.add_argument("--peers", default=",".join(known), help="default: %(default)s")
    parser.add_argument("--metrics", default="".join(METRICS))
    parser.add_argument("--rounds", type=int, default=3, help="G is measured in the first only")
    parser.add_argument("--jobs", type=int)
    parser.add_argument("--large", type=int, help="jobs of G")
    parser.add_argument("--limit", type=float, help="seconds after which a drain is cut short")
    parser.add_argument("--quick", action="store_true", help="small: to try, not to publish")
    parser.add_argument("--json", type=Path, help="write all figures here")
    parser.add_argument("--markdown", type=Path, help="write the tables here, not to stdout")
    parser.add_argument("--plot", type=Path, help="write a plot (SVG) here")
    parser.add_argument("--from-json", type=Path, help="report on an earlier run; measure nothing")
    options = parser.parse_args(arguments)
    options.peers = options.peers.split(",")
    wanted = options.metrics.upper() + ("C" if "H" in options.metrics.upper() else "")
    options.metrics = "".join(key for key in METRICS if key in wanted)
    if unknown := [name for name in options.peers if name not in known]:
        parser.error(f"there is no {', '.join(unknown)}; there are {', '.join(known)}")
    return options


def amounts_of(options: argparse.Namespace) -> Amounts:
    chosen = QUICK if options.quick else Amounts()
    given = {name: getattr(options, name) for name in ("jobs", "large", "limit")}
    return Amounts(
        **{**asdict(chosen), **{name: value for name, value in given.items() if value is not None}}
    )


def describe(runner: Runner) -> dict[str, Any]:
    """Make the environment and ask the queue about itself; an error is an answer."""
    try:
        if runner.environment.install():
            say(f"{runner.location.peer}: installed")
        return runner.act("describe", limit=60)
    except (ActionFailed, RuntimeError, OSError) as error:
        say(f"{runner.location.peer}: {error}")
        return {"error": str(error)}


def machine(postgres: str, valkey: Valkey) -> dict[str, Any]:
    with psycopg.connect(postgres) as connection:
        server = connection.info.parameter_status("server_version")
        for name, value in POSTGRES_SETTINGS.items():
            row = connection.execute("select current_setting(%s)", (name,)).fetchone()
            if row is None or row[0] != value:
                raise SystemExit(f"PostgreSQL runs with {name}={row and row[0]}, not {value}")
    for name, value in VALKEY_SETTINGS.items():
        if (found := valkey("config", "get", name)) != [name, value]:
            raise SystemExit(f"Valkey runs with {found}, not {name}={value!r}")
    told = dict(line.split(":", 1) for line in valkey("info", "server").splitlines() if ":" in line)
    return {
        "cpus": os.cpu_count(),
        "processor": platform.machine(),
        "system": f"{platform.system()} {platform.release().split('-')[0]}",
        "python": platform.python_version(),
        "postgres": server,
        "valkey": told.get("valkey_version", told.get("redis_version", "")),
    }


def noise_of(peers: dict[str, Any]) -> dict[str, float]:
    found: dict[str, list[float]] = {}
    for peer in peers.values():
        for metrics in peer["rounds"]:
            for measured in metrics.values():
                for name, value in measured.get("noise", {}).items():
                    found.setdefault(name, []).append(value)
    return {name: round(statistics.median(values), 2) for name, values in found.items()}


def run(options: argparse.Namespace) -> dict[str, Any]:
    amounts = amounts_of(options)
    environments: dict[str, Environment] = environments_by_peer()
    with (
        PostgresServer(durable=True) as postgres,
        ValkeyServer() as valkey,
        tempfile.TemporaryDirectory(prefix="headway-peers-") as folder,
    ):
        url = postgres.url("").rstrip("/")
        runners = {
            name: Runner(environments[name], Location(folder, url, valkey.port, name))
            for name in options.peers
        }
        peers: dict[str, Any] = {
            name: {"described": describe(runner), "rounds": []} for name, runner in runners.items()
        }
        results: dict[str, Any] = {
            "command": shlex.join(["make", "bench-peers", *_arguments()]),
            "machine": machine(f"{url}/postgres", Valkey(valkey.port)),
            "postgres": POSTGRES_SETTINGS,
            "valkey": VALKEY_SETTINGS,
            "rounds": options.rounds,
            "metrics": options.metrics,
            "amounts": {**asdict(amounts), "payload": len(json.dumps(payload(0)))},
            "peers": peers,
        }
        for number in range(options.rounds):
            # Another one is first in each round, so that what drifts is no one's advantage.
            shift = number * len(runners) // options.rounds
            order = [*list(runners)[shift:], *list(runners)[:shift]]
            for name in order:
                if "error" in peers[name]["described"]:
                    continue
                possible = peers[name]["described"]["metrics"]
                wanted = "".join(
                    each
                    for each in options.metrics
                    if each in possible and (each != "G" or number == 0)
                )
                head = f"round {number + 1}/{options.rounds} {name}:"
                measurements = Measurements(
                    runners[name], amounts, lambda text, head=head: say(f"{head} {text}")
                )
                peers[name]["rounds"].append(measurements.measure(wanted))
                if options.json:
                    options.json.write_text(json.dumps(results, indent=1))
            if runners:
                say(f"round {number + 1} of {options.rounds} is done")
        results["noise"] = noise_of(peers)
        return results


def _arguments() -> list[str]:
    given = sys.argv[1:]
    return [f"ARGS={shlex.join(given)}"] if given else []


def _terminated(*_: object) -> NoReturn:
    raise KeyboardInterrupt


def main() -> None:
    options = parse()
    signal.signal(signal.SIGTERM, _terminated)
    if options.from_json:
        results = json.loads(options.from_json.read_text())
    else:
        try:
            results = run(options)
        except KeyboardInterrupt:
            raise SystemExit("interrupted; everything that was started is stopped") from None
        if options.json:
            options.json.write_text(json.dumps(results, indent=1))
    text = markdown(results)
    if options.markdown:
        options.markdown.write_text(text)
    else:
        print(text, end="")
    if options.plot:
        options.plot.write_text(plot(results))


if __name__ == "__main__":
    main()
