"""Actions on jobs: print how many, ask, act in batches, print the result."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Sequence

import click

from headway.app import Headway
from headway.cli.errors import Exit, Failed
from headway.cli.filters import read_filter, read_ids
from headway.cli.output import say, tell
from headway.cli.safe_text import harmless
from headway.cli.session import Session, in_session
from headway.cli.target import DashboardUrl
from headway.domain.queries import MAX_PAGE, JobFilter
from headway.domain.text import DONE, found, plural
from headway.domain.views import Batch, Count, JobAction

COUNTED = 10_000
"""Jobs that are counted one by one for the question; more are estimated."""
DESTRUCTIVE = frozenset({JobAction.CANCEL, JobAction.DELETE})


def act(
    target: Headway | DashboardUrl,
    action: JobAction,
    words: Sequence[str],
    *,
    confirmed: bool,
) -> Batch:
    """On the jobs with these ids, or on all jobs that match the filter."""

    async def run(session: Session) -> Batch:
        ids = read_ids(words)
        if ids is None:
            return await _on_all(session, action, read_filter(words), confirmed=confirmed)
        if len(ids) == 1:  # an ending becomes its id; an id that nobody has is an error
            ids = [(await session.questions.job(ids[0])).job.id]
        if action in DESTRUCTIVE:
            sentence = f"{action} {plural(len(ids), 'job')} in {session.store}"
            confirm(sentence, confirmed=confirmed)
        return await _on_these(session, action, ids)

    return in_session(target, run)


def print_batch(action: JobAction, done: Batch) -> None:
    passed = f", {done.passed_over:,} passed over" if done.passed_over else ""
    tell(f"{plural(done.changed, 'job')} {DONE[action]}{passed}")


def confirm(sentence: str, *, confirmed: bool) -> None:
    """Print the action; without --yes, ask before it is done."""
    if confirmed:
        say(sentence)
    elif not sys.stdin.isatty():
        raise Failed(f"{sentence}: add --yes to do it", Exit.REFUSED)
    elif not _agreed(f"{sentence}?"):
        raise Failed("nothing was changed", Exit.REFUSED)


def _agreed(question: str) -> bool:
    """The answer. Ctrl-C ends the command; the end of the input means no."""
    interrupted = False

    def interrupt(*_: object) -> None:
        nonlocal interrupted
        interrupted = True
        raise KeyboardInterrupt

    # The event loop's handler would wait for the answer before it ends the command.
    before = signal.getsignal(signal.SIGINT)
    ours = before is not signal.SIG_IGN and threading.current_thread() is threading.main_thread()
    if ours:
        signal.signal(signal.SIGINT, interrupt)
    try:
        return click.confirm(harmless(question), err=True)
    except click.Abort:
        click.echo(err=True)  # after the question
        if not interrupted:
            return False
        raise Failed("interrupted; nothing was changed", Exit.INTERRUPTED) from None
    finally:
        if ours:
            signal.signal(signal.SIGINT, before)


async def _on_these(session: Session, action: JobAction, ids: list[str]) -> Batch:
    changed = passed_over = 0
    for begin in range(0, len(ids), MAX_PAGE):
        batch = await session.actions.act(action, ids[begin : begin + MAX_PAGE])
        changed += batch.changed
        passed_over += batch.passed_over
    if len(ids) == 1 and not changed:  # for one job, say why
        explained = await session.questions.why(ids[0])
        raise Failed(f"nothing was {DONE[action]}: {explained.sentence}")
    return Batch(changed=changed, passed_over=passed_over)


async def _on_all(
    session: Session, action: JobAction, which: JobFilter, *, confirmed: bool
) -> Batch:
    count = await session.questions.count(which, at_most=COUNTED)
    if not count.value and count.exact:
        say("no jobs match")
        return Batch(changed=0, passed_over=0)
    confirm(f"{action} {many_jobs(count)} that match in {session.store}", confirmed=confirmed)
    changed = passed_over = 0
    cursor: str | None = None
    with click.progressbar(
        length=count.value or 1, label=action.value, file=sys.stderr, hidden=not sys.stderr.isatty()
    ) as bar:
        while True:
            batch = await session.actions.act_on_all(action, which, cursor=cursor)
            changed += batch.changed
            passed_over += batch.passed_over
            bar.update(batch.changed + batch.passed_over)
            cursor = batch.cursor
            if cursor is None:
                break
    if not changed:
        raise Failed(
            f"nothing was {DONE[action]}: no job that matches is in a state that allows it"
        )
    # The action looks only at jobs in a state that allows it. Deleting takes whole sequences.
    if count.exact and action is not JobAction.DELETE:
        passed_over = max(passed_over, count.value - changed)
    return Batch(changed=changed, passed_over=passed_over)


def many_jobs(count: Count) -> str:
    """How many jobs match, exact or estimated."""
    if count.exact:
        return plural(count.value, "job")
    return f"{found(count, COUNTED)} jobs" if count.value else "an unknown number of jobs"
