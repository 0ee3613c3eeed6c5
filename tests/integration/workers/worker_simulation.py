"""Simulated workers that end, hand back, freeze and write late on a real MongoDB, and their shared world."""

import asyncio
import random
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from prometheus_client import CollectorRegistry

from workers.admission.cap_settings import parse_caps
from workers.admission.claim_lanes import Lanes
from workers.admission.limits.all_limits import AllLimits
from workers.admission.run_admission import Admission
from workers.control.change_result import RefusedError, RunNotFoundError
from workers.control.run_cancellation import cancel
from workers.reconciler.reconcile_metrics import ReconcileMetrics
from workers.reconciler.reconciler import Reconciler
from workers.settings import Settings
from workers.store.claimed_runs import MongoRunRepository
from workers.store.limit_name import LimitKind, LimitName
from workers.store.run import TERMINAL, Claim, LeaseLostError, RunRequest, RunState, TriggerEvent
from workers.store.run_store import RunStore
from workflows.context.documents.document_access import DocumentWrite

CAPS = parse_caps("app:acme=1,workflow:Relay=3,rate:globex=20/s")
APPS, WORKFLOWS = ("acme", "globex", "initech"), ("Relay", "Digest")
LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)
ENDS = (*TERMINAL, RunState.PARKED, RunState.NEEDS_HUMAN, RunState.SUCCEEDED)

Document = dict[str, Any]
Owned = tuple[str, int]  # a run and the token of its owner


@dataclass
class WorkerWorld:
    """The store, and a broker that may lose messages."""

    store: RunStore
    settings: Settings
    dice: random.Random
    tickets: list[str] = field(default_factory=list)
    accepted: int = 0
    at_work: dict[Owned, list[LimitName]] = field(default_factory=dict)  # with the limits that apply to it
    lapsed: set[Owned] = field(default_factory=set)
    did: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)
    over: bool = False

    def send(self, run_id: str) -> None:
        self.tickets.append(run_id)

    async def count_waiting(self) -> int:
        return len(self.tickets)

    def reconciler(self) -> Reconciler:
        return Reconciler(
            self.store, self.settings, wakeups=self, tickets=self, metrics=ReconcileMetrics(CollectorRegistry())
        )

    async def some_run(self, **query: Any) -> Document | None:
        found = await self.store.runs.find(query, {"lease.token": 1}).to_list(200)
        return self.dice.choice(found) if found else None

    def note_claim(self, claim: Claim) -> None:
        limits = CAPS.caps_for(claim.document["app_id"], claim.document["workflow"])
        if (key := claim.document.get("order_head")) is not None:
            limits[LimitName(LimitKind.ORDER, key)] = 1
        if (claim.run_id, claim.token) not in self.lapsed:
            self.at_work[claim.run_id, claim.token] = list(limits)
        working = Counter(limit for limits in self.at_work.values() for limit in limits)
        self.faults += [f"too many of {limit}" for limit, most in limits.items() if working[limit] > most]

    async def expire_lease(self, run_id: str, token: int) -> None:
        """Expires the lease of an owner, which may still be about to write."""
        self.lapsed.add((run_id, token))
        self.at_work.pop((run_id, token), None)
        owned = {"_id": run_id, "lease.token": token, "state": "running"}
        await self.store.runs.update_one(owned, {"$set": {"lease.until": LONG_AGO}})

    def request(self) -> RunRequest:
        event = TriggerEvent("webhook", "hook", str(self.dice.randrange(2000)), fired_at=datetime.now(UTC))
        app_id, workflow = self.dice.choice(APPS), self.dice.choice(WORKFLOWS)
        order_key = self.dice.choice([None, None, None, None, "order 1", "order 1", "order 2"])
        soon = datetime.now(UTC) + timedelta(milliseconds=200)
        not_before = soon if self.dice.random() < 0.1 else None
        return RunRequest(
            app_id, workflow, event, priority=self.dice.randrange(10), order_key=order_key, not_before=not_before
        )


class UnlimitedSlots:
    """Slots for any number of suspects."""

    def has_room(self) -> bool:
        return True

    def reserve(self) -> bool:
        return True

    def release(self) -> None:
        pass


class SimulatedWorker:
    """A simulated process. After a freeze it writes too late; an honest one ends what it begins."""

    def __init__(self, world: WorkerWorld, name: str, *, honest: bool = False) -> None:
        self.honest = honest
        self.world, self.store, self.dice = world, world.store, world.dice
        self.ownership = MongoRunRepository(world.store, owner=name, lease_s=60)
        self.admission = Admission(
            AllLimits(CAPS, world.store),
            self.ownership,
            world,
            has_caps=bool(CAPS),
            on_held=lambda _: None,
            on_fenced=lambda: None,
        )
        self.lanes = Lanes(self.ownership, self.admission, lambda: world.over, isolation_slots=UnlimitedSlots())
        self.frozen: list[tuple[Claim, int]] = []

    async def step(self) -> None:
        if not self.world.tickets:
            await asyncio.sleep(0.005)
            return
        ticket: str | None = self.world.tickets.pop(self.dice.randrange(len(self.world.tickets)))
        while ticket is not None and (claim := await self.lanes.claim_next(ticket)) is not None:
            self.world.note_claim(claim)
            try:
                turn = await self.work_on(claim)
                self.world.at_work.pop((claim.run_id, claim.token), None)
                await self.give_up(claim, turn)
            except LeaseLostError:
                self.world.did["fenced"] += 1
            died = not self.honest and self.dice.random() < 0.2  # before it released others
            ticket = None if died else await self.admission.release_after(claim)

    async def work_on(self, claim: Claim) -> int:
        """Works on the run; returns the number of its turns."""
        turn: int = claim.document["turn"]
        for _ in range(self.dice.randrange(3)):
            turn += 1
            await self.commit(claim, turn)
        await asyncio.sleep(self.dice.random() * 0.01)
        return turn

    async def give_up(self, claim: Claim, turn: int) -> None:
        mood = self.dice.random()
        if self.honest or mood < 0.6:
            await self.finish(claim, self.dice.choice(ENDS))
        elif mood < 0.9:
            delay = timedelta(milliseconds=self.dice.choice([0, 0, 20, 200]))
            if self.dice.random() < 0.2:  # a request too late for its worker to notice
                await self.request_cancel(claim)
            retried = self.dice.random() < 0.5
            state = await self.ownership.requeue(claim, delay=delay, counts_as_attempt=retried, reason="$later")
            self.world.did["cancelled as it was given up"] += state is RunState.CANCELLED
        else:
            self.frozen.append((claim, turn))
            if self.dice.random() < 0.8:
                await self.world.expire_lease(claim.run_id, claim.token)

    async def request_cancel(self, claim: Claim) -> None:
        with suppress(RefusedError, RunNotFoundError):  # another owner has ended it meanwhile
            await cancel(self.store, claim.run_id, by="$me")

    async def finish(self, claim: Claim, state: RunState) -> None:
        outcome = {"kind": "completed", "reason": f"${state}", "error": None}
        record: Document = {"outcome": outcome, "usage": {}, "errors": []}
        if state is RunState.NEEDS_HUMAN:
            record["question"] = {"number": len(claim.document.get("answers") or ()) + 1, "kind": "message"}
        owed = (self.write_value(claim, "end"),) if self.dice.random() < 0.1 else ()
        await self.ownership.finish(claim, state, record, writes=owed)
        self.world.did[state] += 1

    async def commit(self, claim: Claim, number: int) -> None:
        owed = (self.write_value(claim, str(number)),) if self.dice.random() < 0.1 else ()
        checkpoint = {"context": {"token": claim.token}, "next_agent": "A", "progress": {"ended": None}}
        await self.ownership.commit_turn(claim, number=number, turn={"agent": "A"}, checkpoint=checkpoint, writes=owed)

    def write_value(self, claim: Claim, value: str) -> DocumentWrite:
        values = {"token": claim.token, "value": value}
        app_id, database = claim.document["app_id"], self.store.database.name
        return DocumentWrite("note", app_id, database, "notes", "run_id", claim.run_id, values)

    async def thaw_now_and_then(self) -> None:
        """Thaws a worker, preferably while the next owner is at work."""
        await asyncio.sleep(0.01)
        at_work = {run_id for run_id, _ in self.world.at_work}
        for frozen in self.frozen:
            if frozen[0].run_id in at_work or self.dice.random() < 0.02:
                self.frozen.remove(frozen)
                await self.write_late(*frozen)
                return

    async def write_late(self, claim: Claim, turn: int) -> None:
        newer = await self.store.runs.find_one({"_id": claim.run_id, "lease.token": {"$gt": claim.token}})
        try:
            if self.dice.random() < 0.5:
                await self.commit(claim, turn + 1)
            await self.ownership.requeue(claim, delay=timedelta(0), counts_as_attempt=False, reason="thawed")
        except LeaseLostError:
            self.world.did["fenced"] += 1
        else:
            self.world.faults += [f"{claim} wrote though {newer['lease']} had it"] if newer else []
