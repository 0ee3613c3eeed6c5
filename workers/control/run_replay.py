"""Replay: repeats the request of a run as a new run that points to the old one.

Its dedupe key is made of the id of the old run and a number. The store keeps one run for each number: a second request
for the same replay finds the first. A parked run is resolved after the insert. If the caller is interrupted in between,
it repeats the command, which finds the replay and resolves the run.

A replay repeats the effects of the old run. If tools or write-backs of that run succeeded, the replay must be requested
with `repeat_done`. Unless the old run succeeded, the replay uses its idempotency keys: a service that knows a key does
nothing twice.
"""

import itertools
import logging
from dataclasses import dataclass
from typing import Any

from workers.control.change_result import RefusedError, RunChange, RunNotFoundError, known_state, log_labels
from workers.control.run_effects import EFFECT_FIELDS, WouldRepeatError, has_new_keys, read_effects
from workers.store.operator_writes import RunChanges
from workers.store.run import RunRequest, RunState, TriggerEvent
from workers.store.run_document import Document
from workers.store.run_reads import RunReads
from workers.store.run_store import RunStore
from workers.wakeup_sender import WakeupSender

log = logging.getLogger(__name__)

MAX_LISTED = 50
_REQUEST_FIELDS = (
    "app_id",
    "workflow",
    "trigger",
    "input",
    "message",
    "user_id",
    "priority",
    "correlation_id",
    "parent_run_id",
    "ui_responses",
    "state",
)
_NOT_REPLAYABLE = {
    RunState.QUEUED: "is queued: it has not run yet",
    RunState.RUNNING: "is running; cancel it first, or wait for its end",
    RunState.NEEDS_HUMAN: "waits for a person: answer it, or discard it first",
}


@dataclass(frozen=True, slots=True)
class ReplayOptions:
    """Options of a replay.

    `again`: even if the run was replayed before. `repeat_done`: even if effects are repeated. `new_keys`: tools get new
    idempotency keys instead of those of the old run.
    """

    again: bool = False
    repeat_done: bool = False
    new_keys: bool = False


async def replay(
    store: RunStore,
    wake: WakeupSender,
    run_id: str,
    *,
    by: str,
    app_id: str | None = None,
    options: ReplayOptions = ReplayOptions(),
) -> RunChange:
    """Replays the run. Raises WouldRepeatError if that repeats effects without `repeat_done`."""
    run, earlier = await _read_replayable(store, run_id, app_id)
    state = known_state(run)
    if earlier and not options.again:
        new_run_id, created = earlier[-1]["_id"], False
    else:
        await _check_effects(store, run, options)
        new_run_id, created = await _insert_replay(store, run, after=len(earlier), options=options)
    if created:
        log.info("run_replayed", extra={**log_labels(run, by), "new_run_id": new_run_id})
        wake.send(new_run_id)
    if state is RunState.PARKED:
        # The outcome stays, since the run was counted under it. A concurrent discard has resolved the run already.
        await RunChanges(store).resolve_replayed(run_id, new_run_id=new_run_id, by=by)
        state = RunState.CANCELLED
    description = f"replayed as {new_run_id}" if created else f"was replayed already, as {new_run_id}"
    return RunChange(run_id, state, description, changed=created, new_run_id=new_run_id)


async def check_replay(
    store: RunStore,
    run_id: str,
    *,
    app_id: str | None = None,
    options: ReplayOptions = ReplayOptions(),
) -> RunChange:
    """Returns the result that `replay` would have, without a replay."""
    run, earlier = await _read_replayable(store, run_id, app_id)
    would_start = not earlier or options.again
    if would_start:
        await _check_effects(store, run, options)
    return RunChange(run_id, known_state(run), "would be replayed", changed=would_start)


async def _read_replayable(store: RunStore, run_id: str, app_id: str | None) -> tuple[Document, list[Document]]:
    run = await RunReads(store).find_fields(run_id, (*_REQUEST_FIELDS, *EFFECT_FIELDS), app_id=app_id)
    if run is None:
        raise RunNotFoundError(run_id)
    state = known_state(run)
    if state in _NOT_REPLAYABLE:
        raise RefusedError(f"{run_id} {_NOT_REPLAYABLE[state]}")
    return run, await find_replays(store, run)


async def _check_effects(store: RunStore, run: Document, options: ReplayOptions) -> None:
    if not options.repeat_done and (effects := await read_effects(store, run)):
        if options.new_keys and not has_new_keys(run):
            effects.keys, effects.why_new = "new", "as you ask"
        raise WouldRepeatError(run["_id"], effects)


async def find_replays(store: RunStore, run: Document) -> list[Document]:
    """Returns the replays of the run, oldest first.

    They are found by the prefix of their dedupe keys, so they need no index of their own.
    """
    begins = _replay_request(run, number="").dedupe_key
    found = await RunReads(store).replays(run["_id"], dedupe_prefix=begins, limit=MAX_LISTED)
    return sorted(found, key=lambda run: (run["created_at"], run["_id"]))


async def _insert_replay(store: RunStore, run: Document, *, after: int, options: ReplayOptions) -> tuple[str, bool]:
    for number in itertools.count(after + 1):
        accepted = await store.insert(_replay_request(run, number=str(number), new_keys=options.new_keys))
        # The event of a user may have the id of a replay, so the field decides.
        if accepted.created or (not options.again and await RunReads(store).is_replay(accepted.run_id, of=run["_id"])):
            return accepted.run_id, accepted.created
    raise AssertionError("numbers do not end")


def _replay_request(run: Document, *, number: str, new_keys: bool = False) -> RunRequest:
    trigger: dict[str, Any] = {**run["trigger"], "id": f"replay:{run['_id']}:{number}"}
    return RunRequest(
        app_id=run["app_id"],
        workflow=run["workflow"],
        trigger=TriggerEvent(**trigger),
        input=run.get("input", {}),
        message=run.get("message"),
        user_id=run.get("user_id"),
        correlation_id=run.get("correlation_id"),
        parent_run_id=run.get("parent_run_id"),
        replay_of=run["_id"],
        keys_of=None if new_keys or has_new_keys(run) else run.get("keys_of") or run["_id"],
        priority=run.get("priority", 5),
        ui_responses=run.get("ui_responses"),
    )
