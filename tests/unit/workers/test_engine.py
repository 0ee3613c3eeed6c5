"""The engine: the state of a run after a retry, hold, cancellation, hand-back, takeover or failed write."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from bson.errors import InvalidDocument
from pymongo.errors import AutoReconnect, OperationFailure

from accounting.budgets.reservation_types import BudgetHoldError, PlannedCall
from tests.unit.workers.engine_bench import OVERLOADED, Bench, bench_of
from tests.unit.workflows.packages import ENTITY, write_package, write_tool
from workers.store.run import Claim
from workers.store.run_repository import LinkedRuns
from workers.tracing.tracing import NoTracing
from workflows.chat.chat_errors import PackageDefect
from workflows.context.documents.document_access import WriteRefusedError, WriteTooSlowError

TWO_TURNS = {"answers": {"A": [{"text": "one"}], "B": [{"text": "two"}]}}
WINDOW_END = datetime(2026, 3, 2, tzinfo=UTC)


class FaultyRepository:
    """Raises `error` from one method, `times` times, and delegates all other calls."""

    def __init__(self, inner: Any, method: str, error: Exception, *, times: int = 1) -> None:
        self._inner = inner
        self._method, self._error, self.left = method, error, times

    def __getattr__(self, name: str) -> Any:
        if name != self._method:
            return getattr(self._inner, name)

        async def call(*arguments: Any, **keywords: Any) -> Any:
            if self.left > 0:
                self.left -= 1
                raise self._error
            return await getattr(self._inner, name)(*arguments, **keywords)

        return call


def in_the_turn_of(agent: str, act: Callable[[], Any]) -> Callable[[PlannedCall], Awaitable[None]]:
    async def on_call(planned: PlannedCall) -> None:
        if planned.agent == agent:
            done = act()
            if isinstance(done, Awaitable):
                await done
            await asyncio.sleep(0)  # a cancellation arrives

    return on_call


async def test_a_run_goes_through_all_steps(tmp_path: Path) -> None:
    bench = await bench_of(tmp_path, TWO_TURNS)

    done = await bench.execute()

    assert done.released is not None
    assert (bench.state, bench.speakers, bench.run["outcome"]["kind"]) == ("succeeded", ["A", "B"], "completed")
    assert (bench.run["usage"]["calls"], bench.run["lease"]["owner"]) == (2, None)
    assert bench.run["package_version"] is not None
    assert bench.events.names == ["started 1", "turn of A", "turn of B", "finished succeeded"]


async def test_a_transient_fault_is_retried_after_the_last_turn(tmp_path: Path) -> None:
    bench = await bench_of(tmp_path, {"answers": {"A": [{"text": "one"}], "B": [OVERLOADED, {"text": "two"}]}})

    await bench.execute()
    assert (bench.state, bench.run["attempt"], bench.run["turn"]) == ("queued", 2, 1)
    assert (bench.run["not_before"] - bench.now).total_seconds() == 1.0  # half of the first delay
    assert await bench.repository().claim(bench.run_id) is None
    bench.pass_time(seconds=1)
    await bench.execute()

    assert (bench.state, bench.speakers, bench.called_agents) == ("succeeded", ["A", "B"], ["A", "B", "B"])
    assert bench.events.names[2:4] == ["retried model_error", "started 2"]


async def test_a_run_whose_attempts_are_used_up_is_parked(tmp_path: Path) -> None:
    bench = await bench_of(tmp_path, {"answers": {"A": [OVERLOADED] * 2}}, max_attempts=2)

    await bench.execute()
    bench.pass_time(hours=1)
    await bench.execute()

    assert (bench.state, bench.run["outcome"]["kind"]) == ("parked", "model_error")
    assert [line["ended"] for line in bench.run["history"]] == ["retry", "parked"]


async def test_a_run_without_budget_is_held_and_goes_on_after_its_last_turn(tmp_path: Path) -> None:
    bench = await bench_of(tmp_path, TWO_TURNS)

    def refuse() -> None:
        raise BudgetHoldError("spent", held_by="budget:app:acme/day/usd", until=WINDOW_END)

    bench.on_call = in_the_turn_of("B", refuse)
    await bench.execute()
    assert (bench.state, bench.run["hold"], bench.run["held_by"]) == ("queued", "budget", "budget:app:acme/day/usd")
    assert (bench.run["held_until"], bench.run["attempt"], bench.speakers) == (WINDOW_END, 1, ["A"])
    assert await bench.repository().claim(bench.run_id) is None

    bench.on_call = in_the_turn_of("nobody", lambda: None)
    await bench.store.release_held("budget:app:acme/day/usd")
    await bench.execute()

    assert (bench.state, bench.called_agents) == ("succeeded", ["A", "B"])
    assert "held budget" in bench.events.names


async def test_a_cancelled_run_ends_with_its_last_steps(tmp_path: Path) -> None:
    folder = write_package(
        tmp_path / "Small",
        tools={"lifecycle_tools": [{"trigger": "on_fail", "file": "last.py", "function": "last"}]},
    )
    write_tool(folder, "last.py", "def last(context_variables):\n    context_variables.set('closed', True)\n")
    bench = await bench_of(tmp_path, TWO_TURNS)
    bench.on_call = in_the_turn_of("A", lambda: bench.lease.cancel(by="Ada"))

    await bench.execute()

    assert (bench.state, bench.run["outcome"]["reason"]) == ("cancelled", "cancelled by Ada")
    assert (bench.run["context"]["closed"], bench.run["turn"]) == (True, 0)


async def test_a_request_that_comes_at_the_end_is_too_late_for_success(tmp_path: Path) -> None:
    bench = await bench_of(tmp_path, TWO_TURNS)
    bench.on_call = in_the_turn_of("B", lambda: bench.store.request_cancel(bench.run_id, by="Ada"))

    await bench.execute()

    assert bench.state == "succeeded"


async def test_a_request_that_its_worker_has_not_seen_ends_a_run_that_would_rest(tmp_path: Path) -> None:
    bench = await bench_of(tmp_path, {"answers": {"A": [OVERLOADED]}}, max_attempts=1)
    bench.on_call = in_the_turn_of("A", lambda: bench.store.request_cancel(bench.run_id, by="Ada"))

    await bench.execute()

    assert (bench.state, bench.run["outcome"]["reason"]) == ("cancelled", "cancelled by Ada")
    assert bench.events.names[-1] == "finished cancelled"


async def test_a_retry_of_a_run_that_is_to_be_cancelled_does_not_come(tmp_path: Path) -> None:
    bench = await bench_of(tmp_path, {"answers": {"A": [OVERLOADED]}})
    bench.on_call = in_the_turn_of("A", lambda: bench.store.request_cancel(bench.run_id, by="Ada"))

    await bench.execute()

    assert (bench.state, bench.run["usage"]["calls"]) == ("cancelled", 1)
    assert "retried model_error" not in bench.events.names


async def test_a_stopping_worker_hands_its_run_back_between_two_turns(tmp_path: Path) -> None:
    bench = await bench_of(tmp_path, TWO_TURNS)

    def stop() -> None:
        bench.shutdown.has_stopped = True

    bench.on_call = in_the_turn_of("A", stop)
    await bench.execute()
    assert (bench.state, bench.run["attempt"], bench.speakers) == ("queued", 1, ["A"])
    assert bench.run["history"][-1]["ended"] == "handed_back"

    bench.shutdown.has_stopped = False
    await bench.execute()

    assert (bench.state, bench.called_agents) == ("succeeded", ["A", "B"])


async def test_a_run_that_is_cut_off_is_handed_back_without_its_open_turn(tmp_path: Path) -> None:
    bench = await bench_of(tmp_path, TWO_TURNS)
    bench.on_call = in_the_turn_of("B", bench.shutdown.interrupt)

    done = await bench.execute()

    assert done.released is None
    assert (bench.state, bench.run["attempt"], bench.run["turn"]) == ("queued", 1, 1)
    assert bench.run["last_requeue"]["reason"] == "this worker is stopping"


async def test_a_worker_without_time_left_leaves_its_run_to_the_lease(tmp_path: Path) -> None:
    bench = await bench_of(tmp_path, TWO_TURNS)
    bench.shutdown.left_s = 0.0
    bench.on_call = in_the_turn_of("A", bench.shutdown.interrupt)

    await bench.execute()

    assert bench.state == "running"


async def test_a_lost_lease_is_handed_back_while_no_other_owner_has_it(tmp_path: Path) -> None:
    bench = await bench_of(tmp_path, TWO_TURNS)
    bench.on_call = in_the_turn_of("A", bench.lease.lose)

    await bench.execute()

    assert (bench.state, bench.run["last_requeue"]["reason"]) == ("queued", "the lease was not renewed")


async def test_a_run_that_was_taken_over_is_left_to_its_new_owner(tmp_path: Path) -> None:
    """The old owner notices it at its next write, and changes nothing."""
    bench = await bench_of(tmp_path, TWO_TURNS)
    newer: list[Claim | None] = []

    async def take_over() -> None:
        bench.pass_time(minutes=5)
        await bench.store.reclaim_expired()
        newer.append(await bench.repository("second").claim(bench.run_id))

    bench.on_call = in_the_turn_of("A", take_over)
    done = await bench.execute()

    assert done.released is None
    assert (bench.state, bench.run["turn"], bench.events.names[-1]) == ("running", 0, "fenced")
    [claim] = newer
    assert claim is not None
    assert bench.run["lease"] == {"owner": "second", "token": 2, "until": bench.run["lease"]["until"]}
    assert claim.document["worker_losses"] == 1


async def test_a_run_of_a_lost_worker_resumes_after_its_last_turn(tmp_path: Path) -> None:
    bench = await bench_of(tmp_path, TWO_TURNS)
    bench.shutdown.left_s = 0.0  # killed, so it hands nothing back
    bench.on_call = in_the_turn_of("B", bench.shutdown.interrupt)
    await bench.execute()

    bench.pass_time(minutes=5)
    await bench.store.reclaim_expired()
    bench.shutdown.has_stopped = False
    bench.on_call = in_the_turn_of("nobody", lambda: None)
    await bench.execute(bench.services(bench.repository("second")))

    assert (bench.state, bench.speakers) == ("succeeded", ["A", "B"])
    assert bench.run["worker_losses"] == 0  # it made progress
    assert [line["owner"] for line in bench.run["history"]] == ["first", "second"]


async def writer_of_customer(folder: Path) -> Bench:
    tools = {"tools": [{"agent": "A", "file": "act.py", "function": "act", "description": "acts"}]}
    package = write_package(folder / "Small", tools=tools)
    source = "def act(context_variables):\n    context_variables.set('customer', {'plan': 'gold'})\n"
    write_tool(package, "act.py", source)
    answers = {
        "answers": {"A": [{"tool_calls": [{"name": "act", "arguments": {}}]}, {"text": "x"}], "B": [{"text": "y"}]}
    }
    return await bench_of(folder, answers, tools=tools, context_variables={"definitions": {"customer": ENTITY}})


async def test_what_a_run_owes_is_written_with_its_success(tmp_path: Path) -> None:
    bench = await writer_of_customer(tmp_path)

    await bench.execute()

    assert (bench.state, [write.values for write in bench.written]) == ("succeeded", [{"plan": "gold"}])
    assert [write["variable"] for write in bench.run["writes"]] == ["customer"]


async def test_a_run_whose_result_is_refused_has_failed(tmp_path: Path) -> None:
    bench = await writer_of_customer(tmp_path)
    bench.refusal = WriteRefusedError("customer is not written: it is another app's")

    await bench.execute()

    assert (bench.state, bench.run["outcome"]["kind"], bench.written) == ("failed", "package_error", [])
    assert "another app's" in bench.run["outcome"]["reason"]


async def test_a_run_whose_result_was_too_slow_comes_back_for_it(tmp_path: Path) -> None:
    bench = await writer_of_customer(tmp_path)
    bench.refusal = WriteTooSlowError("customer is not written: it took too long")
    await bench.execute()
    assert (bench.state, bench.run["attempt"], bench.speakers) == ("queued", 2, ["A", "B"])

    bench.refusal = None
    bench.pass_time(hours=1)
    await bench.execute()

    assert (bench.state, bench.called_agents) == ("succeeded", ["A", "A", "B"])
    assert [write.values for write in bench.written] == [{"plan": "gold"}]


@pytest.mark.parametrize("method", ["commit_turn", "usage_totals", "finish", "pin_package"])
async def test_a_run_goes_back_when_the_store_is_back(tmp_path: Path, method: str) -> None:
    bench = await bench_of(tmp_path, TWO_TURNS)
    away = FaultyRepository(bench.repository(), method, AutoReconnect("away"))

    done = await bench.execute(bench.services(away))

    assert done.released is None
    assert (bench.state, bench.run["attempt"]) == ("queued", 1)
    assert bench.run["last_requeue"]["reason"] == "store unavailable: AutoReconnect"


async def test_a_store_that_is_away_for_the_trace_hands_the_run_back_as_well(tmp_path: Path) -> None:
    class FaultyTracing(NoTracing):
        async def link_related_runs(self, claim: Claim, runs: LinkedRuns) -> None:
            del claim, runs
            raise AutoReconnect("away")

    bench = await bench_of(tmp_path, TWO_TURNS)

    await bench.execute(bench.services(tracing=FaultyTracing()))

    assert (bench.state, bench.called_agents) == ("queued", [])


async def test_a_hand_back_is_tried_until_the_store_answers(tmp_path: Path) -> None:
    bench = await bench_of(tmp_path, TWO_TURNS)
    away = FaultyRepository(bench.repository(), "commit_turn", AutoReconnect("away"))
    still_away = FaultyRepository(away, "requeue", AutoReconnect("away"), times=3)

    await bench.execute(bench.services(still_away))

    assert (bench.state, still_away.left) == ("queued", 0)


async def test_a_store_that_stays_away_leaves_the_run_to_its_lease(tmp_path: Path) -> None:
    bench = await bench_of(tmp_path, TWO_TURNS)
    away = FaultyRepository(bench.repository(), "commit_turn", AutoReconnect("away"))
    gone = FaultyRepository(away, "requeue", AutoReconnect("away"), times=10**9)

    await bench.execute(bench.services(gone, lease_s=0.01))

    assert bench.state == "running"


@pytest.mark.parametrize("error", [InvalidDocument("odd"), ValueError("odd"), OperationFailure("too large")])
async def test_an_end_that_cannot_be_written_down_is_a_failure(tmp_path: Path, error: Exception) -> None:
    bench = await bench_of(tmp_path, TWO_TURNS)
    faulty = FaultyRepository(bench.repository(), "finish", error)

    await bench.execute(bench.services(faulty))

    assert (bench.state, bench.run["outcome"]["kind"]) == ("failed", "package_error")
    assert "could not be recorded" in bench.run["outcome"]["reason"]


@pytest.mark.parametrize("error", [PackageDefect("broken"), RuntimeError("broken"), SystemExit("broken")])
async def test_a_package_that_cannot_be_built_fails_its_run(tmp_path: Path, error: BaseException) -> None:
    bench = await bench_of(tmp_path, TWO_TURNS)

    async def get_package(workflow: str, *, version: str | None) -> Any:
        del workflow, version
        raise error

    await bench.execute(bench.services(get_package=get_package))

    assert (bench.state, bench.run["outcome"]["kind"], bench.called_agents) == ("failed", "package_error", [])


async def test_loading_that_uses_up_the_time_of_a_chat_is_a_timeout(tmp_path: Path) -> None:
    orchestrator = {"workflow_name": "Small", "initial_agent": "A", "limits": {"wall_clock_s": 0.01}}
    bench = await bench_of(tmp_path, TWO_TURNS, orchestrator=orchestrator)

    async def load_context(*_: Any) -> Any:
        await asyncio.sleep(60)

    await bench.execute(bench.services(load_context=load_context))

    assert (bench.state, bench.run["outcome"]["kind"]) == ("failed", "timeout")
    assert "before A could take turn 1" in bench.run["outcome"]["reason"]


async def test_a_run_keeps_the_version_that_it_began_with(tmp_path: Path) -> None:
    bench = await bench_of(tmp_path, {"answers": {"A": [OVERLOADED, {"text": "one"}], "B": [{"text": "two"}]}})
    await bench.execute()
    began_with = bench.run["package_version"]
    wanted: list[str | None] = []
    package = await bench.services().get_package("Small", version=None)

    async def get_package(workflow: str, *, version: str | None) -> Any:
        del workflow
        wanted.append(version)
        return package

    bench.pass_time(hours=1)
    await bench.execute(bench.services(get_package=get_package))

    assert (wanted, bench.run["package_version"]) == ([began_with], began_with)
