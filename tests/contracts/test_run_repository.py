"""The contract of run repositories: fencing, states, holds, losses, turns and writes, the same in memory and MongoDB.

MongoDB runs it in tests/integration/workers/test_run_repository.py.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol

import pytest

from accounting.ledger.memory_ledger import MemoryLedger
from accounting.usage import BegunCall, ModelCall, RunOwner, Tokens
from workers.steps.run_services import UsageLedger
from workers.store.claimed_runs_in_memory import MemoryRunRepository
from workers.store.run import (
    AT_REST,
    ISOLATED_LANE_PREFIX,
    RUN_FORMAT,
    Accepted,
    Claim,
    Hold,
    HoldKind,
    LeaseLostError,
    RunRequest,
    RunState,
    TriggerEvent,
)
from workers.store.run_document import MAX_HISTORY, MAX_REASON, Document
from workers.store.run_repository import RunRepository
from workers.store.run_store_in_memory import MemoryRuns
from workers.store.storable import NotStorableError, check_storable
from workflows.context.documents.document_access import DocumentWrite, WriteRefusedError
from workflows.context.reads.persistent_states import PersistentState

TURN = {"agent": "Writer", "text": "hello"}
OUTCOME = {"kind": "completed", "reason": "", "error": None}
END = {"outcome": OUTCOME, "usage": {"calls": 1}}
BUDGET = Hold(HoldKind.BUDGET, "budget:app:acme/day/usd", datetime(2036, 3, 29, 22, tzinfo=UTC))
CAP = Hold(HoldKind.CONCURRENCY, "app:acme")


def request(event_id: str = "1", **fields: Any) -> RunRequest:
    event = TriggerEvent("webhook", "hook", event_id, fired_at=datetime.now(UTC))
    return RunRequest(**{"app_id": "acme", "workflow": "Digest", "trigger": event, **fields})


def write(value: Any = "gold") -> DocumentWrite:
    return DocumentWrite("customer", "acme", "shop", "customers", "app_id", "acme", {"plan": value})


class RepositoryUnderTest(Protocol):
    """A store, and the changes to its runs that owners do not make."""

    ledger: UsageLedger

    def repository(
        self,
        owner: str = "first",
        *,
        versions: Callable[[], Mapping[str, str]] = dict,
        run_format: int = RUN_FORMAT,
    ) -> RunRepository: ...

    async def insert(self, request: RunRequest) -> Accepted: ...

    async def pass_time(self, time: timedelta) -> None: ...

    async def reclaim(self) -> None: ...

    async def request_cancel(self, run_id: str) -> None: ...

    async def set_fields(self, run_id: str, fields: Mapping[str, Any]) -> None:
        """Changes the run into a document of another version; None removes a field."""

    async def release_next(self, order_key: str) -> None: ...

    async def written(self) -> Sequence[Mapping[str, Any]]:
        """The values that runs have written to `customers`."""


class MemoryUnderTest:
    def __init__(self) -> None:
        self.now = datetime.now(UTC)
        self.ledger: UsageLedger = (ledger := MemoryLedger())
        self._written: list[Mapping[str, Any]] = []
        self._store = MemoryRuns(
            clock=lambda: self.now, usage_totals=ledger.totals, write_documents=self._write_documents
        )

    def _write_documents(self, writes: Sequence[DocumentWrite], states: Sequence[PersistentState]) -> None:
        del states
        try:
            for each in writes:
                check_storable(each.values)
        except NotStorableError as error:
            raise WriteRefusedError(str(error)) from None
        self._written = [each.values for each in writes]

    def repository(
        self,
        owner: str = "first",
        *,
        versions: Callable[[], Mapping[str, str]] = dict,
        run_format: int = RUN_FORMAT,
    ) -> RunRepository:
        return MemoryRunRepository(self._store, owner=owner, versions=versions, run_format=run_format)

    async def insert(self, request: RunRequest) -> Accepted:
        return await self._store.insert(request)

    async def pass_time(self, time: timedelta) -> None:
        self.now += time

    async def reclaim(self) -> None:
        await self._store.reclaim_expired()

    async def request_cancel(self, run_id: str) -> None:
        await self._store.request_cancel(run_id, by="Ada")

    async def set_fields(self, run_id: str, fields: Mapping[str, Any]) -> None:
        run = self._store.runs[run_id]
        for name, value in fields.items():
            run[name] = value
            if value is None:
                del run[name]

    async def release_next(self, order_key: str) -> None:
        await self._store.release_next_in_order(order_key)

    async def written(self) -> Sequence[Mapping[str, Any]]:
        return self._written


class RunRepositoryContract:
    """A subclass has the fixture `under_test`."""

    @pytest.fixture
    def repository(self, under_test: RepositoryUnderTest) -> RunRepository:
        return under_test.repository()

    @pytest.fixture
    async def claim(self, under_test: RepositoryUnderTest, repository: RunRepository) -> Claim:
        return await claim_run(repository, (await under_test.insert(request())).run_id)

    async def test_a_second_request_for_an_event_is_the_same_run(self, under_test: RepositoryUnderTest) -> None:
        first, second = await under_test.insert(request()), await under_test.insert(request())
        other_app = await under_test.insert(request(app_id="globex"))

        assert (first.created, second.created, other_app.created) == (True, False, True)
        assert first.run_id == second.run_id != other_app.run_id

    async def test_of_many_claims_at_once_one_succeeds(self, under_test: RepositoryUnderTest) -> None:
        run_id = (await under_test.insert(request())).run_id

        claims = await asyncio.gather(*(under_test.repository(f"w{n}").claim(run_id) for n in range(9)))

        assert [claim is not None for claim in claims].count(True) == 1

    async def test_a_run_that_is_not_due_is_not_claimed(
        self, under_test: RepositoryUnderTest, repository: RunRepository
    ) -> None:
        later = datetime.now(UTC) + timedelta(hours=1)
        accepted = await under_test.insert(request(not_before=later))

        assert (accepted.ready, await repository.claim(accepted.run_id)) == (False, None)
        await under_test.pass_time(timedelta(hours=2))
        assert await repository.claim(accepted.run_id) is not None

    async def test_an_unknown_run_is_not_claimed(self, repository: RunRepository) -> None:
        assert await repository.claim("run_unknown") is None
        assert await repository.claim_first("acme") is None
        assert await repository.find("run_unknown") is None

    async def test_the_stale_token_is_refused_though_its_owner_has_the_run(
        self, under_test: RepositoryUnderTest, repository: RunRepository, claim: Claim
    ) -> None:
        """The same owner claims twice: the token decides, not the name."""
        await repository.requeue(claim, delay=timedelta(0), counts_as_attempt=False, reason="")
        newer = await claim_run(repository, claim.run_id)
        assert (newer.owner, newer.token) == (claim.owner, claim.token + 1)
        before = await find_run(repository, claim)

        for stale_write in (
            repository.renew(claim),
            repository.commit_turn(claim, number=1, turn=TURN, checkpoint={"context": {"by": "stale"}}),
            repository.commit_turn(claim, number=1, turn=TURN, checkpoint={}, writes=[write()]),
            repository.finish(claim, RunState.SUCCEEDED, END),
            repository.finish(claim, RunState.SUCCEEDED, END, writes=[write()]),
            repository.finish(claim, RunState.PARKED, END),
            repository.requeue(claim, delay=timedelta(0), counts_as_attempt=True, reason=""),
            repository.hold(claim, CAP),
            repository.put_on_hold(claim, BUDGET, reason=""),
            repository.pin_package(claim, "stale"),
            repository.keep_open_turn(claim, number=1, turn={"steps": []}),
            repository.record_answer(claim, {"question": {"id": "q_1"}, "standing": True}),
        ):
            with pytest.raises(LeaseLostError):
                await stale_write

        assert await find_run(repository, claim) == before
        assert await repository.committed_turns(claim.run_id, up_to=before["turn"]) == []
        assert await under_test.written() == []

    async def test_a_stale_turn_does_not_overwrite_the_newer_owners(
        self, under_test: RepositoryUnderTest, repository: RunRepository, claim: Claim
    ) -> None:
        newer = await take_over(under_test, claim)
        await repository.commit_turn(newer, number=1, turn={**TURN, "text": "newer"}, checkpoint={})

        with pytest.raises(LeaseLostError):
            await repository.commit_turn(claim, number=1, turn={**TURN, "text": "stale"}, checkpoint={})

        assert [turn["text"] for turn in await repository.committed_turns(claim.run_id, up_to=1)] == ["newer"]

    async def test_what_a_dead_owner_left_uncounted_is_replaced(
        self, under_test: RepositoryUnderTest, repository: RunRepository, claim: Claim
    ) -> None:
        await repository.keep_open_turn(claim, number=1, turn={**TURN, "text": "of the dead", "steps": []})
        newer = await take_over(under_test, claim)

        await repository.commit_turn(newer, number=1, turn=TURN, checkpoint={})

        assert [turn["text"] for turn in await repository.committed_turns(claim.run_id, up_to=1)] == ["hello"]

    async def test_a_turn_counts_once_and_in_order(self, repository: RunRepository, claim: Claim) -> None:
        await repository.commit_turn(claim, number=1, turn=TURN, checkpoint={"next_agent": "Reader"})

        for uncounted in (1, 3):
            with pytest.raises(LeaseLostError):
                await repository.commit_turn(claim, number=uncounted, turn=TURN, checkpoint={"next_agent": "No"})

        run = await find_run(repository, claim)
        assert (run["turn"], run["next_agent"]) == (1, "Reader")

    async def test_a_run_that_gets_on_is_charged_with_no_earlier_loss(
        self, under_test: RepositoryUnderTest, repository: RunRepository, claim: Claim
    ) -> None:
        """Otherwise a long run would be parked for all losses since its beginning."""
        newer = await take_over(under_test, claim)
        await under_test.set_fields(claim.run_id, {"losses_alone": 4})
        assert newer.document["worker_losses"] == 1

        await repository.commit_turn(newer, number=1, turn=TURN, checkpoint={})

        run = await find_run(repository, claim)
        assert (run["worker_losses"], run["losses_alone"]) == (0, 0)

    async def test_a_suspect_of_killing_its_workers_waits_in_a_lane_of_its_own(
        self, under_test: RepositoryUnderTest, repository: RunRepository, claim: Claim
    ) -> None:
        await take_over(under_test, claim)
        await lost(under_test)

        assert await repository.claim_first("acme") is None
        alone = await repository.claim_first(f"{ISOLATED_LANE_PREFIX}acme")

        assert alone is not None
        assert alone.is_isolated
        assert alone.owner.startswith("first/alone-")
        run = await find_run(repository, claim)
        assert [line["ended"] for line in run["history"]] == ["worker_lost", "worker_lost"]

    async def test_a_renewed_lease_is_not_taken_over(
        self, under_test: RepositoryUnderTest, repository: RunRepository, claim: Claim
    ) -> None:
        await under_test.pass_time(timedelta(seconds=20))
        await repository.renew(claim)
        await under_test.pass_time(timedelta(seconds=20))
        await under_test.reclaim()

        assert (await find_run(repository, claim))["state"] == "running"

    async def test_a_claim_is_handed_to_another_process(self, repository: RunRepository, claim: Claim) -> None:
        handed_over = await repository.find_claim(claim.run_id, claim.token)

        assert handed_over == claim
        assert await repository.find_claim(claim.run_id, claim.token + 1) is None
        await repository.finish(claim, RunState.FAILED, END)
        assert await repository.find_claim(claim.run_id, claim.token) is None

    async def test_a_retry_counts_and_is_due_later(
        self, under_test: RepositoryUnderTest, repository: RunRepository, claim: Claim
    ) -> None:
        state = await repository.requeue(claim, delay=timedelta(hours=1), counts_as_attempt=True, reason="$429")

        run = await find_run(repository, claim)
        assert (state, run["state"], run["attempt"], run["wakes"]) == ("queued", "queued", 2, 0)
        assert (run["lease"], run["last_requeue"]["reason"]) == (nobody(claim), "$429")
        assert ("lane" in run, run["wake_at"]) == (False, run["not_before"])
        assert await repository.claim(claim.run_id) is None
        await under_test.pass_time(timedelta(hours=2))
        assert (await claim_run(repository, claim.run_id)).attempt == 2

    async def test_a_hand_back_is_due_now_and_no_attempt(self, repository: RunRepository, claim: Claim) -> None:
        await repository.requeue(claim, delay=timedelta(0), counts_as_attempt=False, reason="stopping")

        run = await find_run(repository, claim)
        assert (run["attempt"], run["not_before"], run["lane"]) == (1, None, "acme")
        [line] = run["history"]
        assert (line["token"], line["owner"], line["ended"], line["reason"]) == (1, "first", "handed_back", "stopping")

    async def test_a_history_is_bounded(
        self, under_test: RepositoryUnderTest, repository: RunRepository, claim: Claim
    ) -> None:
        line = {"token": 0, "owner": "old", "ended": "handed_back", "reason": ""}
        await under_test.set_fields(claim.run_id, {"history": [line] * MAX_HISTORY})

        await repository.finish(claim, RunState.FAILED, {"outcome": {**OUTCOME, "reason": "x" * 9_000}})

        run = await find_run(repository, claim)
        assert (len(run["history"]), len(run["history"][-1]["reason"])) == (MAX_HISTORY, MAX_REASON)

    async def test_a_run_over_a_cap_has_not_started(
        self, under_test: RepositoryUnderTest, repository: RunRepository
    ) -> None:
        run_id = (await under_test.insert(request())).run_id
        claim = await claim_run(under_test.repository(versions=lambda: {"Digest": "v1"}), run_id)

        assert await repository.hold(claim, CAP) is RunState.QUEUED

        run = await find_run(repository, claim)
        assert (run["hold"], run["held_by"], run["started_at"], run["package_version"]) == (
            "concurrency",
            "app:acme",
            None,
            None,
        )
        assert (run["lease"], "lane" in run, "held_until" in run) == (nobody(claim), False, False)
        assert (run["attempt"], run["history"]) == (1, [])
        assert await repository.claim(run_id) is None

    async def test_a_run_without_budget_is_held_as_it_is(self, repository: RunRepository, claim: Claim) -> None:
        await repository.commit_turn(claim, number=1, turn=TURN, checkpoint={})

        assert await repository.put_on_hold(claim, BUDGET, reason="spent") is RunState.QUEUED

        run = await find_run(repository, claim)
        assert (run["hold"], run["held_by"], run["held_until"]) == ("budget", BUDGET.by, BUDGET.until)
        assert (run["turn"], run["attempt"], run["history"][-1]["ended"]) == (1, 1, "held")
        assert run["started_at"] == claim.document["started_at"]

    async def test_a_run_starts_once(
        self, under_test: RepositoryUnderTest, repository: RunRepository, claim: Claim
    ) -> None:
        await under_test.pass_time(timedelta(seconds=1))
        newer = await take_over(under_test, claim)
        await repository.hold(newer, CAP)

        run = await find_run(repository, claim)
        assert claim.document["started_at"] == claim.document["claimed_at"]
        assert run["started_at"] is not None  # held in a later attempt, so it has started

    async def test_a_queued_run_is_cancelled_at_once(self, under_test: RepositoryUnderTest) -> None:
        repository, run_id = under_test.repository(), (await under_test.insert(request())).run_id

        await under_test.request_cancel(run_id)

        run = await repository.find(run_id) or {}
        assert (run["state"], run["outcome"]["reason"], "lane" in run) == ("cancelled", "cancelled by Ada", False)
        assert await repository.claim(run_id) is None

    @pytest.mark.parametrize("how", ["requeue", "hold", "put_on_hold", "park", "rest"])
    async def test_a_run_that_is_given_up_after_a_cancel_request_ends(
        self, under_test: RepositoryUnderTest, repository: RunRepository, claim: Claim, how: str
    ) -> None:
        await under_test.request_cancel(claim.run_id)
        assert (await find_run(repository, claim))["state"] == "running"
        asked = {**END, "questions": [{"number": 1}], "question": {"number": 1}}

        giving_up = {
            "requeue": repository.requeue(claim, delay=timedelta(hours=1), counts_as_attempt=True, reason="429"),
            "hold": repository.hold(claim, CAP),
            "put_on_hold": repository.put_on_hold(claim, BUDGET, reason="spent"),
            "park": repository.finish(claim, RunState.PARKED, END),
            "rest": repository.finish(claim, RunState.NEEDS_HUMAN, asked),
        }
        chosen = giving_up.pop(how)
        for other in giving_up.values():
            other.close()

        assert await chosen is RunState.CANCELLED
        run = await find_run(repository, claim)
        assert (run["state"], run["outcome"]["reason"]) == ("cancelled", "cancelled by Ada")
        assert (run["hold"], run["question"], run["not_before"]) == (None, None, None)
        assert not {"lane", "held_by", "held_until", "questions"} & run.keys()
        assert run["usage"] is not None
        assert run["finished_at"] is not None

    async def test_a_run_that_succeeds_after_a_cancel_request_has_succeeded(
        self, under_test: RepositoryUnderTest, repository: RunRepository, claim: Claim
    ) -> None:
        await under_test.request_cancel(claim.run_id)

        assert await repository.finish(claim, RunState.SUCCEEDED, END) is RunState.SUCCEEDED

    async def test_a_lost_run_that_is_to_be_cancelled_ends(
        self, under_test: RepositoryUnderTest, repository: RunRepository, claim: Claim
    ) -> None:
        await under_test.request_cancel(claim.run_id)
        await lost(under_test)

        assert (await find_run(repository, claim))["state"] == "cancelled"

    @pytest.mark.parametrize("state", [RunState.SUCCEEDED, RunState.FAILED, *sorted(AT_REST)])
    async def test_a_finished_run_has_no_owner_and_its_record(
        self, repository: RunRepository, claim: Claim, state: RunState
    ) -> None:
        assert await repository.finish(claim, state, END) is state

        run = await find_run(repository, claim)
        assert (run["state"], run["lease"], run["outcome"]) == (state.value, nobody(claim), OUTCOME)
        assert (run["usage"], run["history"][-1]["ended"]) == ({"calls": 1}, state.value)
        assert await repository.claim(claim.run_id) is None
        with pytest.raises(LeaseLostError):
            await repository.finish(claim, RunState.FAILED, END)

    async def test_an_open_turn_does_not_count_until_it_is_committed(
        self, repository: RunRepository, claim: Claim
    ) -> None:
        await repository.keep_open_turn(claim, number=1, turn={**TURN, "steps": [{"kind": "call"}]})

        kept = await repository.open_turn(claim.run_id, number=1)
        assert kept is not None
        assert kept["steps"] == [{"kind": "call"}]
        assert (await find_run(repository, claim))["turn"] == 0
        assert await repository.open_turn(claim.run_id, number=2) is None

        await repository.commit_turn(claim, number=1, turn={**TURN, "steps": [], "refreshed": {}}, checkpoint={})

        [turn] = await repository.committed_turns(claim.run_id, up_to=1)
        assert (turn["text"], "steps" in turn, "refreshed" in turn) == ("hello", False, False)

    async def test_a_committed_turn_without_steps_is_not_open(self, repository: RunRepository, claim: Claim) -> None:
        await repository.commit_turn(claim, number=1, turn=TURN, checkpoint={})

        assert await repository.open_turn(claim.run_id, number=1) is None

    async def test_a_standing_answer_is_recorded_once_for_each_question(
        self, repository: RunRepository, claim: Claim
    ) -> None:
        for question, said in (("q_1", "yes"), ("q_1", "no"), ("q_2", "$no")):
            await repository.record_answer(claim, {"question": {"id": question}, "responses": {"ok": said}})

        answers = (await find_run(repository, claim))["answers"]
        assert [(each["question"]["id"], each["responses"]["ok"]) for each in answers] == [
            ("q_1", "yes"),
            ("q_2", "$no"),
        ]
        assert all(isinstance(each["at"], datetime) for each in answers)

    async def test_documents_are_written_with_the_turn_or_not_at_all(
        self, under_test: RepositoryUnderTest, repository: RunRepository, claim: Claim
    ) -> None:
        with pytest.raises(WriteRefusedError):
            await repository.commit_turn(claim, number=1, turn=TURN, checkpoint={}, writes=[write(2**70)])
        assert ((await find_run(repository, claim))["turn"], await under_test.written()) == (0, [])

        await repository.commit_turn(claim, number=1, turn=TURN, checkpoint={}, writes=[write()])

        assert ((await find_run(repository, claim))["turn"], await under_test.written()) == (1, [{"plan": "gold"}])
        with pytest.raises(LeaseLostError):
            await repository.commit_turn(claim, number=1, turn=TURN, checkpoint={}, writes=[write("twice")])
        assert await under_test.written() == [{"plan": "gold"}]

    async def test_documents_are_written_with_the_end_or_not_at_all(
        self, under_test: RepositoryUnderTest, repository: RunRepository, claim: Claim
    ) -> None:
        with pytest.raises(WriteRefusedError):
            await repository.finish(claim, RunState.SUCCEEDED, END, writes=[write(2**70)])
        assert ((await find_run(repository, claim))["state"], await under_test.written()) == ("running", [])

        await repository.finish(claim, RunState.SUCCEEDED, END, writes=[write()])

        assert ((await find_run(repository, claim))["state"], await under_test.written()) == (
            "succeeded",
            [{"plan": "gold"}],
        )

    async def test_a_run_keeps_the_version_of_its_first_claim(
        self, under_test: RepositoryUnderTest, repository: RunRepository
    ) -> None:
        run_id = (await under_test.insert(request())).run_id
        first = await claim_run(under_test.repository(versions=lambda: {"Digest": "v1"}), run_id)
        newer = await take_over(under_test, first, versions=lambda: {"Digest": "v2"})

        assert [each.document["package_version"] for each in (first, newer)] == ["v1", "v1"]
        await repository.pin_package(newer, "v2")
        assert (await find_run(repository, newer))["package_version"] == "v2"

    async def test_a_lane_gives_the_most_urgent_run_then_the_oldest(
        self, under_test: RepositoryUnderTest, repository: RunRepository
    ) -> None:
        older, _, urgent = [
            (await under_test.insert(request(str(priority), priority=priority))).run_id for priority in (5, 4, 9)
        ]
        await under_test.insert(request("elsewhere", app_id="globex", priority=9))

        claims = [await repository.claim_first("acme") for _ in range(2)]

        assert [claim and claim.run_id for claim in claims] == [urgent, older]

    async def test_a_preferred_run_is_one_of_the_lane_and_urgent_enough(
        self, under_test: RepositoryUnderTest, repository: RunRepository
    ) -> None:
        older, preferred, last = [(await under_test.insert(request(each))).run_id for each in "123"]
        elsewhere = (await under_test.insert(request(app_id="globex"))).run_id

        claims = [
            await repository.claim_first("acme", preferred=elsewhere),
            await repository.claim_first("acme", preferred=last, urgency=9),
            await repository.claim_first("acme", preferred=last),
        ]

        assert [claim and claim.run_id for claim in claims] == [older, preferred, last]

    async def test_runs_of_one_order_key_start_one_after_another(
        self, under_test: RepositoryUnderTest, repository: RunRepository
    ) -> None:
        first, second, third = [await under_test.insert(request(each, order_key="order 7")) for each in "123"]
        assert [each.ready for each in (first, second, third)] == [True, False, False]
        claim = await claim_run(repository, first.run_id)

        await under_test.release_next("acme/order 7")  # the first one still has its turn
        assert await repository.claim(second.run_id) is None
        await repository.finish(claim, RunState.FAILED, END)
        await under_test.release_next("acme/order 7")

        assert [await repository.claim(each.run_id) is not None for each in (third, second)] == [False, True]

    async def test_a_head_that_is_retried_keeps_its_turn(
        self, under_test: RepositoryUnderTest, repository: RunRepository
    ) -> None:
        first, second = [await under_test.insert(request(each, order_key="order 7")) for each in "12"]
        claim = await claim_run(repository, first.run_id)
        await repository.requeue(claim, delay=timedelta(hours=1), counts_as_attempt=True, reason="")

        await under_test.release_next("acme/order 7")

        assert await repository.claim(second.run_id) is None

    async def test_a_run_of_an_older_version_is_claimed_and_takes_the_format(
        self, under_test: RepositoryUnderTest
    ) -> None:
        """The older version can claim such a run again, as the extra field does no harm there."""
        run_id = (await under_test.insert(request())).run_id
        await under_test.set_fields(run_id, {"format": None})

        claim = await claim_run(under_test.repository(run_format=3), run_id)

        assert claim.document["format"] == 3

    async def test_a_run_of_a_newer_version_is_left_to_newer_workers(self, under_test: RepositoryUnderTest) -> None:
        run_id = (await under_test.insert(request())).run_id
        await under_test.set_fields(run_id, {"format": RUN_FORMAT + 1})

        assert await under_test.repository().claim(run_id) is None
        assert await under_test.repository().claim_first("acme") is None
        newer = await claim_run(under_test.repository(run_format=RUN_FORMAT + 2), run_id)
        assert newer.document["format"] == RUN_FORMAT + 2

    async def test_a_new_run_has_the_format_of_this_version(self, claim: Claim) -> None:
        assert claim.document["format"] == RUN_FORMAT

    async def test_a_call_that_is_still_open_counts_as_missing(
        self, under_test: RepositoryUnderTest, repository: RunRepository, claim: Claim
    ) -> None:
        owner = RunOwner(claim.run_id, "acme", None, "chat", "Digest", "webhook")
        call = BegunCall(1, "Writer", "openai", "gpt", datetime.now(UTC))
        await under_test.ledger.begin(owner, lease_token=claim.token, call=call)

        totals = await repository.usage_totals(claim.run_id)

        assert (totals.calls, totals.missing, totals.output_tokens) == (1, 1, 0)
        assert (await under_test.ledger.read_earlier_calls(claim.run_id)).count == 1
        assert (await repository.usage_totals("run_other")).calls == 0

    async def test_a_call_counts_once_however_often_it_is_begun_and_recorded(
        self, under_test: RepositoryUnderTest, repository: RunRepository, claim: Claim
    ) -> None:
        """A worker repeats a write whose answer it did not get; the first record of a call stays."""
        ledger, owner = under_test.ledger, RunOwner(claim.run_id, "acme", None, "chat", "Digest", "webhook")
        now = datetime.now(UTC)
        begun = BegunCall(1, "Writer", "openai", "gpt", now)
        for output in (20, 99):
            await ledger.begin(owner, lease_token=claim.token, call=begun)
            tokens = Tokens(input=10, output=output)
            call = ModelCall(1, "Writer", "openai", "gpt", tokens, "reported", True, now, 0.1)
            await ledger.record(owner, lease_token=claim.token, call=call)

        totals = await repository.usage_totals(claim.run_id)

        assert (totals.calls, totals.missing, totals.input_tokens, totals.output_tokens) == (1, 0, 10, 20)

    async def test_a_run_is_found_by_its_app_alone(self, repository: RunRepository, claim: Claim) -> None:
        assert await repository.find(claim.run_id, app_id="globex") is None
        assert await repository.find(claim.run_id, app_id="acme") == await repository.find(claim.run_id)

    async def test_linked_runs_are_those_that_exist(self, repository: RunRepository, claim: Claim) -> None:
        [linked] = await repository.find_linked([claim.run_id, "run_gone"])

        assert (linked["_id"], linked["lease"]["token"]) == (claim.run_id, claim.token)

    async def test_what_the_caller_changes_later_is_not_stored(self, repository: RunRepository, claim: Claim) -> None:
        context = {"items": [1]}
        await repository.commit_turn(claim, number=1, turn=TURN, checkpoint={"context": context})
        context["items"].append(2)

        assert (await find_run(repository, claim))["context"] == {"items": [1]}


class TestMemoryRunRepository(RunRepositoryContract):
    @pytest.fixture
    def under_test(self) -> RepositoryUnderTest:
        return MemoryUnderTest()


async def claim_run(repository: RunRepository, run_id: str) -> Claim:
    claim = await repository.claim(run_id)
    assert claim is not None
    return claim


async def lost(under_test: RepositoryUnderTest) -> None:
    await under_test.pass_time(timedelta(minutes=5))
    await under_test.reclaim()


async def take_over(under_test: RepositoryUnderTest, claim: Claim, **options: Any) -> Claim:
    """Reclaims the run after its lease expired; the next worker claims it."""
    await lost(under_test)
    return await claim_run(under_test.repository("second", **options), claim.run_id)


async def find_run(repository: RunRepository, claim: Claim) -> Document:
    run = await repository.find(claim.run_id)
    assert run is not None
    return run


def nobody(claim: Claim) -> Document:
    return {"owner": None, "token": claim.token, "until": None}
