"""Bulk changes: one change to each run that a filter matches, in bounded batches, oldest first.

The selection ends at the moment when the command began, so it never includes runs that the command creates. A batch
continues after the last run of the one before, so refused runs do not come up again. An interrupted command may be
repeated: changed runs no longer match, or report that they were changed already.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from accounting.infra.aio import gather_all
from workers.control.change_result import RefusedError, RunChange, RunNotFoundError
from workers.control.run_effects import WouldRepeatError
from workers.store.run_selection import Selection
from workers.store.run_store import RunStore

MAX_CONCURRENT = 20
MAX_REASONS = 100


@dataclass(frozen=True, slots=True)
class SkippedReplay:
    """A replay that was skipped, since it would repeat effects."""

    run_id: str
    done: tuple[str, ...]


ChangeResult = RunChange | SkippedReplay | tuple[str, str]


@dataclass(slots=True)
class BulkResult:
    """The progress of a bulk change.

    `already` counts runs that needed no change, `reasons` holds the first refusals. `skipped` counts replays that would
    repeat effects, and `done` lists the effects of the first of them.
    """

    changed: int = 0
    already: int = 0
    refused: int = 0
    skipped: int = 0
    reasons: list[dict[str, str]] = field(default_factory=list)
    done: list[dict[str, Any]] = field(default_factory=list)

    @property
    def total(self) -> int:
        return self.changed + self.already + self.refused + self.skipped

    def add(self, result: ChangeResult) -> None:
        if isinstance(result, RunChange):
            self.changed += result.changed
            self.already += not result.changed
        elif isinstance(result, SkippedReplay):
            self.skipped += 1
            if len(self.done) < MAX_REASONS:
                self.done.append({"run_id": result.run_id, "done": list(result.done)})
        else:
            self.refused += 1
            if len(self.reasons) < MAX_REASONS:
                self.reasons.append({"run_id": result[0], "reason": result[1]})

    def as_json(self) -> dict[str, Any]:
        names = ("changed", "already", "refused", "reasons", "skipped")
        return {**{name: getattr(self, name) for name in names}, "skipped_runs": self.done}


async def change_each(
    store: RunStore,
    selection: Selection,
    change: Callable[[str], Awaitable[RunChange]],
    *,
    on_progress: Callable[[BulkResult], None],
) -> BulkResult:
    tally = BulkResult()
    async for batch in selection.batches(store):
        for start in range(0, len(batch), MAX_CONCURRENT):
            chunk = batch[start : start + MAX_CONCURRENT]
            for result in await gather_all(_try_change(change, run["_id"]) for run in chunk):
                tally.add(result)
            on_progress(tally)
    return tally


async def _try_change(change: Callable[[str], Awaitable[RunChange]], run_id: str) -> ChangeResult:
    try:
        return await change(run_id)
    except WouldRepeatError as error:
        return SkippedReplay(run_id, tuple(error.effects.sentences()))
    except (RefusedError, RunNotFoundError) as error:
        return run_id, str(error)
