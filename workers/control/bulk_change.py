"""Many at once: one change to each run that a filter names, in bounded batches, oldest first.

The selection ends at the moment the command began, so it never meets the runs that it makes. A batch is found by the
place where the last one ended, not by what still matches: what is refused does not come up again. Interrupted, the
command may be repeated: what was changed no longer matches, or says that it was changed already.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from accounting.infra.aio import gather_all
from workers.control.run_change import RefusedError, RunChange, RunNotFoundError
from workers.control.run_effects import WouldRepeatError
from workers.store.run_selection import Selection
from workers.store.run_store import RunStore

MAX_CONCURRENT = 20
MAX_REASONS = 100


@dataclass(frozen=True, slots=True)
class SkippedReplay:
    """A replay that was not made: what it would do again."""

    run_id: str
    done: tuple[str, ...]


ChangeResult = RunChange | SkippedReplay | tuple[str, str]


@dataclass(slots=True)
class BulkResult:
    """How far it is: `already` are those that nothing was left to do for, `reasons` the first of the refusals.
    `skipped` are replays that would do again what has succeeded, `done` says of the first of them what that is."""

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
            some = batch[start : start + MAX_CONCURRENT]
            for result in await gather_all(_try_change(change, run["_id"]) for run in some):
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
