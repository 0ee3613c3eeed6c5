"""Admission on a store in memory: a claimed run is admitted, held, refused or requeued, and its place is filled."""

from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest
from pymongo.errors import AutoReconnect

from tests.contracts.test_run_repository import request
from workers.admission.claim_lanes import Lanes
from workers.admission.limits.limit import Refused
from workers.admission.run_admission import Admission
from workers.store.claimed_runs_in_memory import MemoryRunRepository
from workers.store.run import Claim, Hold, HoldKind, RunState
from workers.store.run_store_in_memory import MemoryRuns

CAP = Hold(HoldKind.CONCURRENCY, "app:acme")


class OneLimit:
    """Admits by `verdicts`, the last of which repeats; releases these runs after each one that leaves."""

    def __init__(self, *verdicts: Hold | Refused | Exception | None, released: Sequence[str] = ()) -> None:
        self.verdicts = [*verdicts]
        self.released = list(released)
        self.release_error: Exception | None = None

    async def admit(self, claim: Claim) -> Hold | Refused | None:
        del claim
        verdict = self.verdicts.pop(0) if len(self.verdicts) > 1 else self.verdicts[0]
        if isinstance(verdict, Exception):
            raise verdict
        return verdict

    async def release_after(self, claim: Claim) -> AsyncIterator[str]:
        del claim
        for run_id in self.released:
            yield run_id
        if self.release_error is not None:
            raise self.release_error


class Gate:
    def __init__(self, limit: OneLimit) -> None:
        self.store = MemoryRuns()
        self.repository = MemoryRunRepository(self.store, owner="w")
        self.sent: list[str] = []
        self.noted: list[Any] = []
        self.admission = Admission(
            limit,
            self.repository,
            self,
            has_caps=True,
            on_held=self.noted.append,
            on_fenced=lambda: self.noted.append("fenced"),
            on_refused=lambda _, state: self.noted.append(state),
        )

    def send(self, run_id: str) -> None:
        self.sent.append(run_id)

    async def claimed(self) -> Claim:
        claim = await self.repository.claim((await self.store.insert(request(str(len(self.store.runs))))).run_id)
        assert claim is not None
        return claim


async def test_a_run_with_room_goes_on() -> None:
    gate = Gate(OneLimit(None))
    claim = await gate.claimed()

    assert await gate.admission.try_admit(claim)
    assert gate.store.runs[claim.run_id]["state"] == "running"


async def test_a_run_over_its_cap_is_held_and_its_place_is_filled() -> None:
    gate = Gate(OneLimit(CAP, released=["run_next", "run_after"]))
    claim = await gate.claimed()

    assert not await gate.admission.try_admit(claim)

    run = gate.store.runs[claim.run_id]
    assert (run["state"], run["hold"], run["held_by"], run["started_at"]) == ("queued", "concurrency", "app:acme", None)
    assert gate.noted == [HoldKind.CONCURRENCY]
    assert gate.sent == ["run_after"]  # the caller takes the first one


async def test_a_held_run_starts_when_its_limit_releases_it() -> None:
    gate = Gate(OneLimit(CAP, None))
    claim = await gate.claimed()
    await gate.admission.try_admit(claim)

    await gate.store.release_held("app:acme")
    again = await gate.repository.claim(claim.run_id)

    assert again is not None
    assert await gate.admission.try_admit(again)


async def test_a_run_that_is_to_be_cancelled_is_not_held() -> None:
    gate = Gate(OneLimit(CAP))
    claim = await gate.claimed()
    await gate.store.request_cancel(claim.run_id, by="Ada")

    assert not await gate.admission.try_admit(claim)
    assert (gate.store.runs[claim.run_id]["state"], gate.noted) == ("cancelled", [])


async def test_a_refused_run_has_failed_without_a_call() -> None:
    gate = Gate(OneLimit(Refused("the budget is spent")))
    claim = await gate.claimed()

    assert not await gate.admission.try_admit(claim)

    run = gate.store.runs[claim.run_id]
    assert (run["state"], run["outcome"]["kind"], run["usage"]["calls"]) == ("failed", "budget_exhausted", 0)
    assert gate.noted == [RunState.FAILED]


async def test_a_run_that_another_owner_has_by_now_is_left_alone() -> None:
    gate = Gate(OneLimit(CAP))
    claim = await gate.claimed()
    gate.store.runs[claim.run_id]["lease"]["token"] += 1

    assert not await gate.admission.try_admit(claim)
    assert (gate.store.runs[claim.run_id]["state"], gate.noted) == ("running", ["fenced"])


async def test_a_run_whose_limits_cannot_be_read_is_requeued() -> None:
    gate = Gate(OneLimit(AutoReconnect("away")))
    claim = await gate.claimed()

    with pytest.raises(AutoReconnect):
        await gate.admission.try_admit(claim)

    run = gate.store.runs[claim.run_id]
    assert (run["state"], run["attempt"], run["lane"]) == ("queued", 1, "acme")


async def test_what_was_released_before_a_failure_is_woken() -> None:
    limit = OneLimit(None, released=["run_a", "run_b"])
    limit.release_error = AutoReconnect("away")
    gate = Gate(limit)

    assert await gate.admission.release_after(await gate.claimed()) == "run_a"
    assert gate.sent == ["run_b"]


async def test_a_ticket_goes_on_with_the_next_lane_when_its_run_is_held() -> None:
    gate = Gate(OneLimit(CAP, None))
    first = (await gate.store.insert(request("1"))).run_id
    second = (await gate.store.insert(request("2", app_id="globex"))).run_id
    lanes = Lanes(gate.repository, gate.admission, lambda: False)

    claim = await lanes.claim_next(first)

    assert claim is not None
    assert claim.run_id == second
    assert await lanes.claim_next(first) is None
