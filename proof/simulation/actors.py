"""Who starts jobs, and who meddles with them, in the simulation."""

from __future__ import annotations

import asyncio
import random

from headway import After, Dedup
from headway.client.client import Client
from headway.errors import HeadwayError
from proof.simulation.jobs import chain, effect, joined, patient, plain, whole
from proof.simulation.world import World


async def produce(world: World, client: Client, starts: int) -> None:
    """Start what the scenario's features allow; note what was acknowledged."""
    features = world.scenario.features
    for _ in range(starts):
        await asyncio.sleep(random.expovariate(starts / world.scenario.horizon))
        try:
            world.acknowledged |= await _start(world, client, features)
        except HeadwayError:
            continue  # not acknowledged: it may exist, or not


async def _start(world: World, client: Client, features: tuple[str, ...]) -> set[str]:
    number = random.randrange(1000)
    chance = random.random()
    if chance < 0.2 and "effects" in features:
        kind = random.choice((effect, whole))
        return {(await client.start(kind.request(number))).id}
    if chance < 0.4 and "sequences" in features:
        return {(await client.start(chain.request(random.randint(1, 4)))).id}
    if chance < 0.55 and "blockers" in features:
        known = random.sample(sorted(world.acknowledged), min(2, len(world.acknowledged)))
        blockers = [*(client.sequence(each) for each in known), plain.request(1)]
        return {(await client.start(joined.request(number).using(blockers=blockers))).id}
    if chance < 0.7 and "dedup" in features:
        scope = random.choice(("incomplete", "any"))
        dedup = Dedup(f"{scope}-{random.randrange(5)}", scope=scope)
        kind = random.choice((plain, chain))
        return {(await client.start(kind.request(2), dedup=dedup)).id}
    if chance < 0.8 and "transactions" in features:
        return await _start_in_transaction(client, number)
    if chance < 0.85:
        return {(await client.start(patient.request(number))).id}
    if chance < 0.9:
        requests = [plain.request(n) for n in range(random.randint(2, 8))]
        return {sequence.id for sequence in await client.start_many(requests)}
    later = After(seconds=random.random() * 5)
    priority = random.randrange(3)
    return {(await client.start(plain.request(number), schedule=later, priority=priority)).id}


class _ChangedMind(Exception):
    """Rolls a transaction back."""


async def _start_in_transaction(client: Client, number: int) -> set[str]:
    store = client._store
    try:
        async with store.begin() as tx:
            sequence = await client.start(plain.request(number), tx=tx)
            other = await client.start(effect.request(number), tx=tx)
            if random.random() < 0.5:
                await client.start(chain.request(1), dedup=Dedup("incomplete-0"), tx=tx)
            await asyncio.sleep(random.random() * 0.2)
            if random.random() < 0.3:
                raise _ChangedMind
    except _ChangedMind:
        return set()
    return {sequence.id, other.id}


async def meddle(world: World, client: Client) -> None:
    """Cancel, retry, trigger and complete from outside."""
    if "operators" not in world.scenario.features:
        return
    while not world.healed:
        await asyncio.sleep(random.expovariate(1.0))
        known = sorted(world.acknowledged)
        if not known:
            continue
        target = random.choice(known)
        try:
            match random.randrange(5):
                case 0:
                    await client.cancel(target)
                case 1 | 2:
                    await client.retry(target)
                case 3:
                    await client.trigger(target)
                case _:
                    await _complete(client, target)
        except HeadwayError:
            continue


async def _complete(client: Client, target: str) -> None:
    async with client.complete_sequence(target) as completion:
        if random.random() < 0.5:
            await completion.complete(0)
        else:
            await completion.continue_with(plain.request(3))
