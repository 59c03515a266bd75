"""What one simulation is made of, all of it decided by a seed: a value that can be kept, replayed
and made smaller."""

from __future__ import annotations

from random import Random

import msgspec

FEATURES = ("sequences", "blockers", "dedup", "effects", "transactions", "operators", "failures")


class Fault(msgspec.Struct, frozen=True):
    """Something that happens to a worker or to the store at one moment."""

    kind: str
    """crash, restart, cut, jump"""
    at: float
    target: int = 0
    """Which worker."""
    seconds: float = 0.0
    """How long it stays away, or is cut off, or by how much the store's clock jumps."""


class Scenario(msgspec.Struct, frozen=True, kw_only=True):
    seed: int
    starts: int = 60
    """How many times producers start something."""
    workers: int = 3
    lease: float = 3.0
    horizon: float = 30.0
    """Virtual seconds during which there are producers and faults."""
    slow: float = 0.0
    """The part of store calls that take up to a lease."""
    failing: float = 0.0
    """The part of store calls that fail before they do anything."""
    unknown: float = 0.0
    """The part of store calls that do their work and then fail."""
    lost_notifications: float = 0.0
    doubled_notifications: float = 0.0
    features: tuple[str, ...] = FEATURES
    faults: tuple[Fault, ...] = ()

    @property
    def jumps(self) -> bool:
        return any(fault.kind == "jump" for fault in self.faults)

    @staticmethod
    def from_seed(seed: int) -> Scenario:
        chance = Random(seed)
        horizon = chance.uniform(10, 40)
        workers = chance.randint(2, 5)
        faults: list[Fault] = []
        for kind, most, longest in (
            ("crash", 8, 3.0),
            ("restart", 3, 1.0),
            ("cut", 5, 8.0),
            ("jump", 2, 0.0),
        ):
            if kind == "jump" and chance.random() < 0.7:
                continue  # some checks make no sense once the store's clock has jumped
            for _ in range(chance.randint(0, most)):
                seconds = chance.uniform(0, longest)
                if kind == "jump":
                    seconds = chance.uniform(-20, 20)
                faults.append(
                    Fault(kind, chance.uniform(0, horizon), chance.randrange(workers), seconds)
                )
        mild = chance.random() < 0.3
        if mild and chance.random() < 0.5:  # some checks need a store that always answers
            faults = [fault for fault in faults if fault.kind == "restart"]

        def rate(most: float) -> float:
            return 0.0 if mild else chance.choice((0.0, chance.uniform(0, most)))

        return Scenario(
            seed=seed,
            starts=chance.randint(40, 160),
            workers=workers,
            lease=chance.choice((1.0, 2.0, 4.0)),
            horizon=horizon,
            slow=rate(0.05),
            failing=rate(0.1),
            unknown=rate(0.1),
            lost_notifications=chance.choice((0.0, 0.2, 1.0)),
            doubled_notifications=chance.choice((0.0, 0.2)),
            features=tuple(each for each in FEATURES if chance.random() < 0.8),
            faults=tuple(sorted(faults, key=lambda fault: fault.at)),
        )


def encode(scenario: Scenario) -> str:
    return msgspec.json.encode(scenario).decode()


def decode(text: str) -> Scenario:
    return msgspec.json.decode(text, type=Scenario)
