"""Replay: what a run was asked to do, asked once more, as a new run that points to the old one.

Its dedupe key is made of the old run's id and a number. However often and by however many the same replay is asked
for, the store keeps one: the second finds the first. A parked run is resolved after the insert; who was interrupted
in between asks again, finds the replay, and resolves the run then.

What the old run has done is done again, so a replay of a run whose tools or write-backs succeeded must be asked for
with `repeat_done`. Unless the old run succeeded, its replay goes on with its idempotency keys: a service that knows a
key does nothing twice.
"""

import itertools
import logging
from dataclasses import dataclass
from typing import Any

from workers.control.changed import Changed, names, of_app
from workers.control.effects import EFFECT_FIELDS, WouldRepeatError, effects_of, has_new_keys
from workers.control.errors import RefusedError, RunNotFoundError
from workers.store.run import RunRequest, RunState, TriggerEvent
from workers.store.run_document import Document, literal
from workers.store.run_store import RunStore
from workers.store.transitions import moves
from workers.wakeup_sender import WakeupSender

log = logging.getLogger(__name__)

MAX_LISTED = 50
_ASKED = (
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
_NOT_YET = {
    RunState.QUEUED: "is queued: it has not run yet",
    RunState.RUNNING: "is running; cancel it first, or wait for its end",
    RunState.NEEDS_HUMAN: "waits for a person: answer it, or discard it first",
}


@dataclass(frozen=True, slots=True)
class ReplayOptions:
    """`again`: one more, though it was replayed before. `repeat_done`: also where what has succeeded happens again.
    `new_keys`: its tools are given other idempotency keys than those of the old run."""

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
) -> Changed:
    """WouldRepeatError where the run has done what a replay does again, and that is not wanted."""
    run, earlier = await _replayable(store, run_id, app_id)
    state = RunState(run["state"])
    if earlier and not options.again:
        new_run_id, created = earlier[-1]["_id"], False
    else:
        await _check_effects(store, run, options)
        new_run_id, created = await _inserted(store, run, after=len(earlier), options=options)
    if created:
        log.info("run_replayed", extra={**names(run, by), "new_run_id": new_run_id})
        wake.send(new_run_id)
    if state is RunState.PARKED:
        state = await _resolved(store, run_id, new_run_id, by)
    said = f"replayed as {new_run_id}" if created else f"was replayed already, as {new_run_id}"
    return Changed(run_id, state, said, changed=created, new_run_id=new_run_id)


async def check_replay(
    store: RunStore,
    run_id: str,
    *,
    app_id: str | None = None,
    options: ReplayOptions = ReplayOptions(),
) -> Changed:
    """What `replay` would say, without a replay."""
    run, earlier = await _replayable(store, run_id, app_id)
    would_start = not earlier or options.again
    if would_start:
        await _check_effects(store, run, options)
    return Changed(run_id, RunState(run["state"]), "would be replayed", changed=would_start)


async def _replayable(store: RunStore, run_id: str, app_id: str | None) -> tuple[Document, list[Document]]:
    run = await store.runs.find_one(of_app(run_id, app_id), dict.fromkeys((*_ASKED, *EFFECT_FIELDS), 1))
    if run is None:
        raise RunNotFoundError(run_id)
    state = RunState(run["state"])
    if state in _NOT_YET:
        raise RefusedError(f"{run_id} {_NOT_YET[state]}")
    return run, await replays_of(store, run)


async def _check_effects(store: RunStore, run: Document, options: ReplayOptions) -> None:
    if not options.repeat_done and (effects := await effects_of(store, run)):
        if options.new_keys and not has_new_keys(run):
            effects.keys, effects.why_new = "new", "as you ask"
        raise WouldRepeatError(run["_id"], effects)


async def replays_of(store: RunStore, run: Document) -> list[Document]:
    """The oldest first. Found by what their dedupe keys begin with, so that they need no index of their own."""
    begins = _request(run, number="").dedupe_key
    within = {"$gte": begins, "$lt": begins[:-1] + chr(ord(begins[-1]) + 1)}
    query = {"dedupe_key": within, "replay_of": run["_id"]}
    found: list[Document] = await store.runs.find(query, {"state": 1, "created_at": 1}).to_list(MAX_LISTED)
    return sorted(found, key=lambda each: (each["created_at"], each["_id"]))


async def _inserted(store: RunStore, run: Document, *, after: int, options: ReplayOptions) -> tuple[str, bool]:
    for number in itertools.count(after + 1):
        accepted = await store.insert(_request(run, number=str(number), new_keys=options.new_keys))
        # Somebody's event may be called like a replay: only what says so is one.
        if accepted.created or (not options.again and await _is_replay(store, accepted.run_id, run["_id"])):
            return accepted.run_id, accepted.created
    raise AssertionError("numbers do not end")


async def _is_replay(store: RunStore, run_id: str, of: str) -> bool:
    return await store.runs.find_one({"_id": run_id, "replay_of": of}, {"_id": 1}) is not None


def _request(run: Document, *, number: str, new_keys: bool = False) -> RunRequest:
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


async def _resolved(store: RunStore, run_id: str, new_run_id: str, by: str) -> RunState:
    parked = {"_id": run_id, "state": moves(RunState.PARKED, RunState.CANCELLED)}
    resolved = {"at": "$$NOW", "by": literal(by), "how": "replayed", "run_id": new_run_id}
    # Its outcome stays: it was counted under that. Whoever discarded it meanwhile has resolved it already.
    end = {"state": RunState.CANCELLED.value, "resolved": resolved, "finished_at": "$$NOW"}
    await store.runs.update_one(parked, [{"$set": end}])
    return RunState.CANCELLED
