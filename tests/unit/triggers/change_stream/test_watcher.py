"""The watcher's log of what it finds in the triggers: once, and again when it changes."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, cast

import pytest

from triggers.change_stream.stream_reader import StreamReader, Subscription
from triggers.change_stream.watched_triggers import TriggerSnapshot, WatchedTriggers
from triggers.change_stream.watcher import Pace, RefreshTriggers, Watcher


class FakeLooks:
    """The snapshots of successive checks. The watcher stops after the last one."""

    def __init__(self, *found: TriggerSnapshot) -> None:
        self.stop = asyncio.Event()
        self._found = list(found)

    async def read(self) -> TriggerSnapshot:
        found = self._found.pop(0)
        if not self._found:
            self.stop.set()
        return found


def nothing_to_read(_: TriggerSnapshot) -> Sequence[Subscription]:
    return ()


def no_reader(_: Subscription, __: RefreshTriggers) -> StreamReader:
    raise AssertionError("there is nothing to read")


def known_triggers(
    *, refused: Mapping[str, str] | None = None, in_vain: Mapping[str, str] | None = None
) -> TriggerSnapshot:
    return TriggerSnapshot((), (), refused or {}, in_vain or {})


@pytest.mark.parametrize(
    ("field", "event"), [("refused", "change_trigger_inactive"), ("in_vain", "chain_waits_in_vain")]
)
async def test_a_triggers_fault_is_logged_once_and_again_when_it_changes(
    field: str, event: str, caplog: pytest.LogCaptureFixture
) -> None:
    one: dict[str, Any] = {field: {"Orders/after": "Digest"}}
    other: dict[str, Any] = {field: {"Orders/after": "Report"}}
    looks = FakeLooks(
        known_triggers(**one), known_triggers(**one), known_triggers(**other), known_triggers(), known_triggers(**other)
    )

    pace = Pace(check_interval_s=0.0)
    watcher = Watcher(
        cast(WatchedTriggers, looks), subscriptions_for=nothing_to_read, stream_reader_for=no_reader, pace=pace
    )
    await watcher.run(looks.stop)

    said = [vars(record) for record in caplog.records if record.message == event]
    values = [each["workflow"] if field == "in_vain" else each["reason"] for each in said]
    assert values == ["Digest", "Report", "Report"]
