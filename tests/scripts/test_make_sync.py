"""The sync client is what scripts/make_sync.py makes of the async one."""

from __future__ import annotations

from scripts.make_sync import TARGET, sync_source


def test_the_sync_client_is_up_to_date() -> None:
    assert TARGET.read_text("utf-8") == sync_source(), "run `make sync`"
