"""Resuming from a checkpoint: the run document decides, and production removes hidden variables."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.integration.stage import Stage, relay
from workers.store.claimed_runs import MongoRunRepository
from workers.store.run import Claim
from workflows.chat.history.transcript import Turn

pytestmark = pytest.mark.integration

PAST = datetime(2020, 1, 1, tzinfo=UTC)


async def run_one_turn(stage: Stage, workflow: str, **checkpoint: Any) -> tuple[MongoRunRepository, Claim]:
    """Inserts a run with a committed turn of A; its first owner still holds it."""
    run_id = (await stage.accept(workflow, wake=False)).run_id
    first = MongoRunRepository(stage.store, owner="first", lease_s=30)
    claim = await first.claim(run_id)
    assert claim is not None
    await first.commit_turn(
        claim, number=1, turn=Turn("A", "one", handoff="B").as_document(), checkpoint={"next_agent": "B", **checkpoint}
    )
    return first, claim


@pytest.mark.design("D4-90")
async def test_a_turn_whose_worker_died_before_moving_the_run_on_is_redone(stage: Stage) -> None:
    stage.package("Relay", relay("Relay", ["A", "B", "C"]))
    stage.answers({agent: [{"text": f"{agent} speaks"}] for agent in "ABC"})
    _, dead = await run_one_turn(stage, "Relay", context={})
    committed = await stage.store.turns.find_one({"_id": f"{dead.run_id}:1"})
    assert committed is not None
    half_written = {**committed, "_id": f"{dead.run_id}:2", "number": 2, "agent": "B", "text": "never committed"}
    await stage.store.turns.insert_one(half_written)
    await stage.store.runs.update_one({"_id": dead.run_id}, {"$set": {"lease.until": PAST}})
    await stage.start_worker()

    run = await stage.reconcile_until_end(dead.run_id)

    assert (run["state"], run["turn"]) == ("succeeded", 3)
    turns = await stage.store.committed_turns(dead.run_id, up_to=3)
    assert [turn["text"] for turn in turns] == ["one", "B speaks", "C speaks"]
    assert [row["agent"] for row in await stage.usage_rows(dead.run_id)] == ["B", "C"]


async def test_a_run_whose_version_is_gone_continues_with_the_new_one_and_logs(stage: Stage) -> None:
    """Its worker was replaced, and the package was edited meanwhile: the old files are gone."""
    stage.package("Relay", relay("Relay", ["A", "B"]))
    stage.answers({agent: [{"text": f"{agent} speaks"}] for agent in "AB"})
    first, claim = await run_one_turn(stage, "Relay", context={})
    await first.pin_package(claim, "sha256:old")
    await first.requeue(claim, delay=timedelta(0), counts_as_attempt=False, reason="this worker is stopping")
    await stage.start_worker()

    run = await stage.reconcile_until_end(claim.run_id)

    assert (run["state"], run["turn"]) == ("succeeded", 2)
    assert [line["package_version"] for line in run["history"]] == ["sha256:old", run["package_version"]]
    assert "pinned_version_gone" in stage.log()


def sandboxed_package() -> dict[str, Any]:
    """B hands over to C in and out of the sandbox alike, unless the variable must not be seen.

    The value computed from the variable skips the turn of B altogether.
    """
    package = relay("Sandboxed", ["A", "B", "C"])
    flag = {"type": "boolean", "source": {"type": "environment", "env_var": "SANDBOX", "default": False}}
    place = {"type": "string", "source": {"type": "computed", "computation": "sandbox && 'box'", "inputs": ["sandbox"]}}
    package["context_variables"] = {
        "definitions": {"sandbox": flag, "place": place},
        "agents": {"B": {"variables": ["sandbox"]}},
    }
    to_c = {"source_agent": "B", "target_agent": "C", "handoff_type": "condition", "condition_type": "expression"}
    package["handoffs"] = {
        "handoff_rules": [
            {"source_agent": "A", "target_agent": "B", "handoff_type": "after_work"},
            {**to_c, "condition": "${place} == 'box'", "condition_scope": "pre"},
            {**to_c, "condition": "${sandbox} == true"},
            {**to_c, "condition": "not ${sandbox}"},
            {"source_agent": "B", "target_agent": "terminate", "handoff_type": "after_work"},
            {"source_agent": "C", "target_agent": "terminate", "handoff_type": "after_work"},
        ]
    }
    return package


@pytest.mark.parametrize(
    ("environment", "agents", "kept"),
    [("Production", ["A", "B"], False), ("development", ["A", "C"], True)],
)
async def test_an_environment_value_in_a_checkpoint_is_removed_in_production(
    stage: Stage, environment: str, agents: list[str], kept: bool
) -> None:
    stage.package("Sandboxed", sandboxed_package())
    elsewhere, claim = await run_one_turn(
        stage, "Sandboxed", context={"sandbox": True, "place": "box", "note": "stays"}
    )
    await elsewhere.requeue(claim, delay=timedelta(0), counts_as_attempt=False, reason="hand-back")
    await stage.start_worker(environment=environment)

    run = await stage.reconcile_until_end(claim.run_id)

    assert (run["state"], await stage.agents_of(claim.run_id)) == ("succeeded", agents)
    assert run["context"]["note"] == "stays"
    assert ("sandbox" in run["context"]) is kept
    assert ("environment_variables_purged" in stage.log()) is not kept


@pytest.mark.parametrize(
    ("worked_s", "state", "kind"),
    [(0.0, "succeeded", "completed"), (59.0, "failed", "timeout"), (3600.0, "failed", "timeout")],
    ids=["only waited", "worked nearly as long", "worked longer"],
)
async def test_the_wall_clock_counts_work_and_not_waiting(stage: Stage, worked_s: float, state: str, kind: str) -> None:
    """Another worker finished the first turn an hour ago; the second takes two seconds."""
    stage.package("Relay", relay("Relay", ["A", "B"], limits={"wall_clock_s": 60}))
    stage.answers({"B": [{"text": "two", "delay_s": 2}]})
    elsewhere, claim = await run_one_turn(
        stage, "Relay", context={}, progress={"version": 1, "counters": {"worked_s": worked_s}}
    )
    await elsewhere.requeue(claim, delay=timedelta(0), counts_as_attempt=False, reason="hand-back")
    an_hour_ago = datetime.now(UTC) - timedelta(hours=1)
    await stage.store.runs.update_one({"_id": claim.run_id}, {"$set": {"started_at": an_hour_ago}})
    await stage.start_worker()

    run = await stage.reconcile_until_end(claim.run_id)

    assert (run["state"], run["outcome"]["kind"]) == (state, kind)


async def test_a_run_whose_last_turn_was_the_end_calls_no_model_again(stage: Stage) -> None:
    """Its worker was lost after that turn was durable, and before the release of the run."""
    stage.package("Relay", relay("Relay", ["A", "B"]))
    ended = {"kind": "completed", "reason": "all said", "error": None}
    elsewhere, claim = await run_one_turn(
        stage, "Relay", context={"note": 1}, progress={"version": 1, "counters": {}, "ended": ended}
    )
    await elsewhere.requeue(claim, delay=timedelta(0), counts_as_attempt=False, reason="hand-back")
    await stage.start_worker()

    run = await stage.reconcile_until_end(claim.run_id)

    assert (run["state"], run["outcome"]["reason"], run["turn"]) == ("succeeded", "all said", 1)
    assert await stage.usage_rows(claim.run_id) == []


@pytest.mark.parametrize(("version", "state", "kind"), [(1, "failed", "loop_detected"), (2, "parked", "package_error")])
async def test_what_a_run_has_used_up_counts_for_its_next_owner(
    stage: Stage, version: int, state: str, kind: str
) -> None:
    """A worker cannot know the usage of a newer format, so it leaves such a run to a newer worker."""
    package = relay("Limited", ["A", "B"], limits={"tool_calls": 3})
    package["tools"] = {"tools": [{"agent": "B", "file": "t.py", "function": "t"}]}
    package["tools/t.py"] = "def t():\n    return 'done'\n"
    stage.package("Limited", package)
    stage.answers({"B": [{"tool_calls": [{"name": "t"}]}, {"text": "done"}]})
    counters = {"tool_calls": 3, "later": {"x": 1}}
    elsewhere, claim = await run_one_turn(
        stage, "Limited", context={}, progress={"version": version, "counters": counters, "ended": None}
    )
    await elsewhere.requeue(claim, delay=timedelta(0), counts_as_attempt=False, reason="hand-back")
    await stage.start_worker(max_attempts=1)

    run = await stage.reconcile_until_end(claim.run_id)

    assert (run["state"], run["outcome"]["kind"]) == (state, kind)
    if version == 1:
        assert (run["outcome"]["error"]["agent"], run["outcome"]["error"]["turn"]) == ("B", 2)


async def test_a_tool_gets_its_stored_value_back_on_the_same_or_another_worker(stage: Stage) -> None:
    package = relay("Odd", ["A", "B"])
    package["tools"] = {
        "tools": [
            {"agent": name, "file": "t.py", "function": function} for name, function in (("A", "put"), ("B", "see"))
        ]
    }
    package["tools/t.py"] = (
        "import datetime\n\n"
        "def put(context_variables):\n    context_variables.set('x', (datetime.date(2026, 1, 1), {1}))\n\n"
        "def see(context_variables):\n    context_variables.set('seen', repr(context_variables.get('x')))\n"
    )
    stage.package("Odd", package)
    stage.answers(
        {
            "A": [{"tool_calls": [{"name": "put"}]}, {"text": "put"}],
            "B": [{"tool_calls": [{"name": "see"}]}, {"text": "seen"}],
        }
    )
    await stage.start_worker()

    run = await stage.wait_for_end((await stage.accept("Odd")).run_id)

    assert run["context"]["x"] == ["2026-01-01", [1]]
    assert run["context"]["seen"] == "['2026-01-01', [1]]"


async def test_a_tool_cannot_make_itself_another_app(stage: Stage) -> None:
    package = relay("Impostor", ["A"])
    package["tools"] = {"tools": [{"agent": "A", "file": "pose.py", "function": "pose"}]}
    package["tools/pose.py"] = "def pose(context_variables=None):\n    context_variables.set('app_id', 'globex')\n"
    stage.package("Impostor", package)
    stage.answers({"A": [{"tool_calls": [{"name": "pose"}]}, {"text": "done"}]})
    await stage.start_worker()

    run = await stage.wait_for_end((await stage.accept("Impostor")).run_id)

    assert (run["app_id"], run["context"]["app_id"]) == ("acme", "acme")
    assert "fixed_names_restored" in stage.log()
