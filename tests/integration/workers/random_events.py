"""Random events of runs on a real MongoDB: people, time and accidents."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.integration.workers.worker_simulation import ENDS, LONG_AGO, Document, WorkerWorld
from workers.control.change_result import RefusedError, RunNotFoundError
from workers.control.run_answers import submit_answer
from workers.control.run_cancellation import cancel, discard
from workers.control.run_replay import ReplayOptions, replay
from workers.control.run_retry import retry_now
from workers.store.run import TERMINAL, Accepted, RunRequest, RunState
from workers.store.run_document import run_document

NOT_OF_OLD = (
    "lane",
    "history",
    "answers",
    "question",
    "cancel_requested",
    "claimed_at",
    "errors",
    "failed_tools",
    "replay_of",
)


class RandomEvents:
    """Events from outside: people, time and accidents."""

    def __init__(self, world: WorkerWorld) -> None:
        self.world, self.store, self.dice = world, world.store, world.dice
        self.reconciler = world.reconciler()

    async def step(self) -> None:
        some: Callable[[], Awaitable[Any]] = self.dice.choices(
            [
                self.insert,
                self.insert_old_format,
                self.cancel_or_answer,
                self.expire_lease,
                self.wait,
                self.lose_wakeup,
                self.age_runs,
                self.reconcile,
            ],
            weights=[8, 1, 6, 1, 2, 1, 1, 4],
        )[0]
        try:
            await some()
        except (RefusedError, RunNotFoundError):
            self.world.did["refused"] += 1

    async def reconcile(self) -> None:
        self.world.did.update(
            {step: sum(counts.values()) for step, counts in (await self.reconciler.run_pass()).items()}
        )

    async def insert(self) -> None:
        accepted = await self._insert_and_note(self.world.request())
        self.world.accepted += accepted.created
        self.world.did["merged"] += accepted.merged
        if accepted.ready and self.dice.random() < 0.9:  # otherwise the sender died in between
            self.world.send(accepted.run_id)

    async def _insert_and_note(self, request: RunRequest) -> Accepted:
        if self.dice.random() < 0.7:
            return await self.store.insert(request)
        key, quiet = "all of an app", timedelta(seconds=5)  # or until `wait` ends it
        return await self.store.insert_debounced(request, key=key, quiet=quiet, max_delay=2 * quiet)

    async def insert_old_format(self) -> None:
        """Inserts a run as the version before lanes wrote it."""
        event = replace(self.world.request().trigger, id=f"old {self.world.accepted} {self.dice.random()}")
        request = replace(self.world.request(), trigger=event, order_key=None)
        run = run_document(request, now=datetime.now(UTC), republish_after=timedelta(0))
        run = {name: value for name, value in run.items() if name not in NOT_OF_OLD}
        end = {"finished_at": LONG_AGO, "outcome": {"kind": "x", "reason": "", "error": None}, "usage": {}}
        left = {"lease": {"owner": "of old", "token": 3, "until": LONG_AGO}, "claimed_at": LONG_AGO}
        kept: list[Document] = [{}, {"state": "running", **left}, *({"state": s, **end} for s in ENDS)]
        await self.store.runs.insert_one({**run, **self.dice.choice(kept)})
        self.world.accepted += 1

    async def cancel_or_answer(self) -> None:
        state = self.dice.choice([*RunState, *[RunState.RUNNING] * 4])
        run = await self.world.some_run(state=state.value)
        if run is None:
            return
        run_id = run["_id"]
        wish = self.dice.choice(["cancel", "cancel", "discard", "answer", "retry", "replay"])
        self.world.did[wish] += 1
        if wish == "cancel":
            await cancel(self.store, run_id, by="$me")
        elif wish == "discard":
            await discard(self.store, run_id, by="me")
        elif wish == "answer":
            number = len(run.get("answers") or ()) + 1
            await submit_answer(self.store, self.world, run_id, question=number, by="me", message="$yes")
        elif wish == "retry":
            await retry_now(self.store, self.world, run_id, by="me")
        else:
            changed = await replay(
                self.store, self.world, run_id, by="me", options=ReplayOptions(again=self.dice.random() < 0.2)
            )
            self.world.accepted += changed.changed

    async def expire_lease(self) -> None:
        run = await self.world.some_run(state="running")
        if run is not None:
            await self.world.expire_lease(run["_id"], run["lease"]["token"])

    async def wait(self) -> None:
        """Lets the time pass that runs wait for."""
        later = {"state": "queued", "hold": None, "lane": {"$exists": False}}
        if (run := await self.world.some_run(**later)) is not None:
            past = {"not_before": LONG_AGO, "wake_at": LONG_AGO}
            await self.store.runs.update_one({"_id": run["_id"], **later}, {"$set": past})

    async def lose_wakeup(self) -> None:
        self.world.tickets[: self.dice.randrange(20)] = []

    async def age_runs(self) -> None:
        """Ages runs without a pending write: no worker is frozen for the whole retention time."""
        ended = {"state": {"$in": [state.value for state in TERMINAL]}}
        run = await self.world.some_run(**ended)
        if run is not None and run["_id"] not in {run_id for run_id, _ in self.world.lapsed}:
            await self.store.runs.update_one({"_id": run["_id"], **ended}, {"$set": {"finished_at": LONG_AGO}})
