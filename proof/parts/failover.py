"""Part failover: under load, the leader of a cluster is killed; its standby takes over, the old
leader comes back as the new one's standby, and is the next to lead."""

from __future__ import annotations

from proof.tools.cluster import TTL, Cluster, Unavailable
from proof.tools.databases import PostgresDatabase
from proof.tools.part_run import PartRun
from proof.tools.worker_group import WorkerGroup, chains, worker_group

WORKERS = 3
LOAD = 3.0
"""Seconds of work between two blows."""
RESUMED = 60.0


def prove(run: PartRun) -> None:
    kills = 1 if run.short else 5
    try:
        cluster = Cluster()
    except Unavailable as reason:
        run.leave_out(f"a cluster that fails over: {reason}")
        return
    with cluster:
        run.say("two nodes, the second one confirms every commit")
        with worker_group(
            run, PostgresDatabase(cluster.dsn), lease_for=10.0, concurrency=10
        ) as workers:
            for _ in range(WORKERS):
                workers.spawn()
            workers.produce(chains(4), backlog=2_000)
            run.check(workers.wait_for_progress(20) is not None, "nothing was done to begin with")
            resumed = [
                seconds
                for _ in range(kills)
                if (seconds := _fail_over(run, cluster, workers)) is not None
            ]
            run.check(len(resumed) == kills, "work did not resume by itself")
            workers.drain(120)
            alive = len(workers.pids)
            workers.stop()
            workers.check_invariants("invariants")
    run.figure("leaders killed", kills)
    run.figure("ttl of the leader's lock, s", TTL)
    run.figure("work resumed after s", resumed)
    run.figure("workers that lived through it", alive)
    run.figure("sequences acknowledged", len(workers.start_log.ids))
    run.figure("starts not answered", workers.start_log.refused)


def _fail_over(run: PartRun, cluster: Cluster, workers: WorkerGroup) -> float | None:
    workers.look_for(LOAD)
    cluster.wait(lambda: workers.look() >= 0 and cluster.synchronous, "synchronous standby")
    leader = cluster.leader
    acknowledged = len(workers.start_log.ids)
    cluster.kill(leader)
    seconds = workers.wait_for_progress(RESUMED)
    if not run.check(seconds is not None, f"nothing was done {RESUMED:.0f} s after a kill"):
        return None
    run.say(f"{leader.name} killed after {acknowledged} starts: resumed after {seconds:.1f} s")
    run.check(cluster.leader is not leader, "the killed node still leads")
    workers.look_for(LOAD)
    cluster.start(leader)
    return round(seconds or 0.0, 1)
