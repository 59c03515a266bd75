"""Failures that are alike have the same fingerprint, and others have not."""

from __future__ import annotations

from headway.domain.failure import FINGERPRINT, fingerprint
from headway.errors import Failure

TRACE = """Traceback (most recent call last):
  File "/app/releases/{release}/shop/orders.py", line {line}, in place
    await charge(order)
  File "/app/releases/{release}/shop/payments.py", line {line}, in charge
    raise Declined(order)
shop.payments.Declined: order {order}
"""


def trace(*, release: int = 1, line: int = 10, order: int = 7) -> str:
    return TRACE.format(release=release, line=line, order=order)


def test_the_place_counts_and_neither_line_number_release_nor_message() -> None:
    one = fingerprint("charge", Failure("Declined", "order 7", trace()))
    moved = Failure("Declined", "order 8 of somebody", trace(release=2, line=99, order=8))
    assert fingerprint("charge", moved) == one
    assert len(one) == FINGERPRINT
    assert int(one, 16) >= 0


def test_type_exception_and_code_tell_apart() -> None:
    failure = Failure("Declined", "no", trace())
    other_code = trace().replace("raise Declined(order)", "raise Declined(order, twice=True)")
    found = {
        fingerprint("charge", failure),
        fingerprint("refund", failure),
        fingerprint("charge", Failure("Refused", "no", trace())),
        fingerprint("charge", Failure("Declined", "no", other_code)),
        fingerprint("charge", Failure("Declined", "no")),
    }
    assert len(found) == 5


def test_without_a_place_numbers_and_quotations_do_not_count() -> None:
    def alike(message: str) -> str:
        return fingerprint("charge", Failure("ProcessDied", message))

    assert alike("order 7 of 'anna' at 0x7f12") == alike("order 81 of 'bert' at 0x99")
    assert alike("order 7") != alike("invoice 7")
