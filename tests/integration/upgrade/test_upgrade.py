"""What the version before left behind, in its own words, is taken over without a migration step."""

import asyncio
import itertools
import re
from collections import Counter
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

import pytest

from accounting.ledger.ledger_rows import OPEN
from tests.integration.ops.command import unattended
from tests.integration.stage import Document, wait_until
from tests.integration.upgrade.conftest import UpgradedDeployment, answer_text
from tests.integration.upgrade.deployment import EVERY_S, HOOK_SECRET
from workers.store.run import RUN_FORMAT
from workers.store.run_indexes import OBSOLETE_RUN_INDEXES

pytestmark = [pytest.mark.integration, pytest.mark.timeout(180)]

USAGE = 12  # tokens of a call that the model server of the test answers
# Runs that had not ended: the turns of each, and the model calls that it had still to make.
UNFINISHED: dict[str, tuple[int, dict[str, int]]] = {
    "queued-1": (1, {"Writer": 1}),
    "queued-2": (1, {"Writer": 1}),
    "queued-3": (1, {"Writer": 1}),
    "retrying": (1, {"Limited": 1}),
    "crashed": (4, {"Third": 1, "Fourth": 1}),
    "isolated": (1, {"Taster": 1}),
    "held-by-cap": (1, {"Writer": 1}),
    "held-by-workflow": (4, {"First": 1, "Second": 1, "Third": 1, "Fourth": 1}),
    "held-by-rate": (1, {"Writer": 1}),
    "held-by-budget": (1, {"Writer": 1}),
    "waiting": (1, {"Payer": 1}),
    "changed-1": (1, {"Packer": 1}),
    "changed-2": (1, {"Packer": 1}),
    "settled-3": (1, {"Merger": 1}),
}


async def test_indexes_of_both_versions_stand_side_by_side(upgraded: UpgradedDeployment) -> None:
    """Creating those of this version did not fail: no name stands for two. Old workers still need the old ones."""
    database = upgraded.stage.store.database
    for collection, recorded in upgraded.recording.indexes.items():
        now = {index["name"]: _definition(index) async for index in await database[collection].list_indexes()}
        kept = {index["name"]: _definition(index) for index in recorded if index["name"] not in OBSOLETE_RUN_INDEXES}
        assert kept.items() <= now.items(), collection


def test_wake_ups_of_the_version_before_are_understood(upgraded: UpgradedDeployment) -> None:
    """No other role ran yet. Runs that wait for anything else are left to it."""
    states = {case: run["state"] for case, run in upgraded.after_wakeups.items() if case in UNFINISHED}

    assert {case for case, state in states.items() if state == "succeeded"} == {"queued-1", "queued-2", "queued-3"}
    assert len(upgraded.recording.messages) == 3
    recorded = upgraded.recording.by_case()
    assert [case for case in UNFINISHED if states[case] not in ("succeeded", recorded[case]["state"])] == []


@pytest.mark.parametrize("case", UNFINISHED)
async def test_an_unfinished_run_comes_to_its_end(upgraded: UpgradedDeployment, case: str) -> None:
    turns, calls = UNFINISHED[case]
    before = upgraded.recording.by_case()[case]
    run = await upgraded.stage.run(before["_id"])
    committed = await upgraded.stage.store.committed_turns(run["_id"], up_to=run["turn"])

    assert (run["state"], run["turn"], run["format"]) == ("succeeded", turns, RUN_FORMAT), run["outcome"]
    assert {agent: count for (run_id, agent), count in upgraded.calls.items() if run_id == run["_id"]} == calls
    assert [turn["number"] for turn in committed] == list(range(1, turns + 1))
    recorded = [turn for turn in upgraded.recording.collections["turns"] if turn["run_id"] == run["_id"]]
    assert committed[: before["turn"]] == sorted(recorded, key=_number)[: before["turn"]]
    assert run["history"][: len(before["history"])] == before["history"]
    assert run["attempt"] == before["attempt"]
    assert run["lease"]["token"] > before["lease"]["token"]


async def test_a_run_that_was_to_be_cancelled_is(upgraded: UpgradedDeployment) -> None:
    """Its worker was killed before it could read the request."""
    before = upgraded.recording.by_case()["cancelled-late"]
    run = await upgraded.stage.run(before["_id"])

    assert (before["state"], bool(before["cancel_requested"])) == ("running", True)
    assert (run["state"], run["outcome"]["kind"]) == ("cancelled", "cancelled")
    assert not [run_id for run_id, _ in upgraded.calls if run_id == run["_id"]]


async def test_ended_runs_stay_as_they_were(upgraded: UpgradedDeployment) -> None:
    ended = ("succeeded", "failed", "cancelled", "parked")
    before = {run["_id"]: run for run in upgraded.recording.collections["runs"] if run["state"] in ended}
    now = await upgraded.runs()

    assert {before[run_id]["state"] for run_id in before} == {*ended}
    assert {run_id: now[run_id] for run_id in before} == before
    assert not {run_id for run_id, _ in upgraded.calls} & {*before}


async def test_usage_is_what_it_was_and_what_came(upgraded: UpgradedDeployment) -> None:
    """Rows that had not been rolled up are, and calls that a dead worker had made stay missing."""
    recorded = upgraded.recording.collections["usage"]
    before = Counter[str]()
    for row in recorded:
        before[row["app_id"]] += row["input_tokens"] + row["output_tokens"]

    async def usage_is_whole() -> bool:
        rows = await upgraded.stage.store.database["usage"].find().to_list(None)
        calls = Counter(row["app_id"] for row in rows)
        calls.subtract(row["app_id"] for row in recorded)
        shown = (await upgraded.call("GET", "/v1/usage?by=app_id")).json()["items"]
        expected = {app: before[app] + USAGE * calls[app] for app in calls}
        return (
            calls.total() == upgraded.calls.total()
            and {row["app_id"]: row["input_tokens"] + row["output_tokens"] for row in shown} == expected
        )

    await wait_until("the totals are those of the ledger", usage_is_whole)
    verified = await unattended(upgraded.stage, "usage", "--verify")
    assert verified.code == 0, verified.out


async def test_billing_posts_what_waited(upgraded: UpgradedDeployment) -> None:
    """Batches of the outbox as they were written; each row of the ledger arrives. Calls whose worker was killed are
    open for some minutes."""
    receiver, database = upgraded.receiver, upgraded.stage.store.database
    waiting = {batch["_id"]: batch["body"] for batch in upgraded.recording.collections["outbox"]}

    async def all_arrived() -> bool:
        rows = {row["_id"] async for row in database["usage"].find({"rollup": {"$ne": OPEN}}, {"_id": 1})}
        return rows == receiver.events.keys()

    await wait_until("every row has arrived", all_arrived)
    assert {batch: [body.encode()] for batch, body in waiting.items()} == {
        batch: [*receiver.bodies[batch]] for batch in waiting
    }


async def test_the_exporter_counts_old_and_new_runs(upgraded: UpgradedDeployment) -> None:
    ended = ("succeeded", "failed", "cancelled", "parked")

    async def all_counted() -> bool:
        runs = Counter(run["app_id"] for run in (await upgraded.runs()).values() if run["state"] in ended)
        page = await upgraded.client.get(f"http://{upgraded.roles.at['exporter']}/metrics")
        counted = Counter[str]()
        for labels, value in re.findall(r"^unattended_runs_total\{(.*)\} (\S+)$", page.text, re.MULTILINE):
            counted[dict(re.findall(r'(\w+)="([^"]*)"', labels))["app"]] += int(float(value))
        return counted == runs

    await wait_until("all runs are counted", all_counted)


async def test_budgets_go_on_from_what_was_spent(upgraded: UpgradedDeployment) -> None:
    rows = upgraded.recording.collections["usage"]
    since = {each["_id"]: each["since"] for each in upgraded.recording.collections["budgets"]}
    for app in ("acme", "thrifty"):
        budget = f"app:{app}/total/tokens"
        old = sum(row["input_tokens"] + row["output_tokens"] for row in rows if row["app_id"] == app)

        async def is_counted(app: str = app, budget: str = budget, old: int = old) -> bool:
            runs = await upgraded.runs()
            calls = sum(count for (run_id, _), count in upgraded.calls.items() if runs[run_id]["app_id"] == app)
            [shown] = [
                each
                for each in (await upgraded.call("GET", "/v1/budgets")).json()["items"]
                if each["budget_id"] == budget
            ]
            return bool(shown["spent"] == old + USAGE * calls)

        await wait_until(f"{budget} has counted all calls", is_counted)
        assert all(row["at"] >= since[budget] for row in rows if row["app_id"] == app)
    assert upgraded.after_wakeups["held-by-budget"]["hold"] == "budget"


async def test_ticks_fire_once_before_and_after(upgraded: UpgradedDeployment) -> None:
    """The last recorded one is tried again, those that were missed are made up for, and a backfill starts nothing."""
    recorded = _ticks(upgraded.recording.collections["runs"], "ticking")
    now = await upgraded.runs()
    ticks = sorted(_ticks([*now.values()], "ticking"))

    steps = {later - earlier for earlier, later in itertools.pairwise(ticks)}
    assert steps == {timedelta(seconds=EVERY_S)}
    assert {*recorded} < {*ticks}
    span = ("--from", min(recorded).isoformat(), "--to", max(recorded).isoformat())
    repeated = await unattended(
        upgraded.stage, "triggers", "backfill", "Short/ticking", "--app", "clock", *span, "--yes", "--json"
    )
    assert repeated.code == 0, repeated.err
    after = _ticks([*(await upgraded.runs()).values()], "ticking")
    assert [tick for tick, count in Counter(after).items() if count > 1] == []


async def test_events_that_have_their_run_start_no_second_one(upgraded: UpgradedDeployment) -> None:
    recording = upgraded.recording
    bearer = {"authorization": f"Bearer {HOOK_SECRET}"}
    hook = await upgraded.client.post("/hooks/acme/Short/paid", json={"id": "order-1"}, headers=bearer)
    assert (hook.status_code, hook.json()["run_id"]) == (200, recording.hooked), answer_text(hook)

    body = {"workflow": "Short", "app_id": "acme", "input": {}}
    posted = await upgraded.call("POST", "/v1/runs", body, **{"idempotency-key": "recorded-1"})
    assert posted.json()["run_id"] == recording.posted, answer_text(posted)

    enqueued = await unattended(upgraded.stage, "enqueue", "Short", "--app", "acme", "--dedupe", "queued-1", "--json")
    assert enqueued.json["run_id"] == recording.by_case()["queued-1"]["_id"]


async def test_old_keys_may_what_they_might(upgraded: UpgradedDeployment) -> None:
    """The key that may approve has answered a question already."""
    reader = upgraded.recording.reader
    shown = await upgraded.call("GET", "/v1/runs", key=reader)
    started = await upgraded.call("POST", "/v1/runs", {"workflow": "Short", "app_id": "acme"}, key=reader)

    assert {run["app_id"] for run in shown.json()["items"]} == {"acme"}
    assert started.status_code == 403, answer_text(started)


async def test_run_time_triggers_and_pauses_stay(upgraded: UpgradedDeployment) -> None:
    listed = await unattended(upgraded.stage, "triggers", "list", "--json")
    by_name: dict[str, Any] = {each["name"]: each for each in listed.json}
    runs = [run for run in (await upgraded.runs()).values() if run["trigger"]["type"] == "schedule"]

    assert {"evening", "frozen", "posted", "stopped", "ticking", "paid"} <= by_name.keys()
    pauses = {name: trigger["paused"]["note"] for name, trigger in by_name.items() if trigger.get("paused")}
    assert pauses == {"frozen": "kept for later", "stopped": "since the move"}
    assert {run["trigger"]["name"] for run in runs} == {"evening", "ticking"}
    bearer = {"authorization": f"Bearer {HOOK_SECRET}", "idempotency-key": "x"}
    posted = await upgraded.client.post("/hooks/acme/Short/posted", json={"id": 1}, headers=bearer)
    assert posted.status_code == 202, answer_text(posted)


async def test_streams_go_on_at_their_positions(upgraded: UpgradedDeployment) -> None:
    """What changed while no watcher ran starts its run; a run that ends now starts the one that follows it."""
    stage = upgraded.stage
    orders = [run["input"]["order"] for run in await stage.store.list() if run["workflow"] == "Orders"]
    visit = (await stage.accept("Visits")).run_id
    visited = await stage.wait_for_end(visit)

    async def is_followed() -> bool:
        return bool(await stage.store.runs.find_one({"workflow": "Chain", "input.after": visit}))

    await wait_until("the visit is followed", is_followed)
    assert visited["context"]["came"] is True  # a state that a run of the recording has left
    assert sorted(orders) == ["order-1", "order-1", "order-2"]
    streams = await stage.store.database["streams"].find().to_list(None)
    assert [(stream["state"], stream["gaps"]) for stream in streams] == [("running", [])] * 2


async def test_every_run_is_displayed(upgraded: UpgradedDeployment) -> None:
    recorded = {run["_id"] for run in upgraded.recording.collections["runs"]}
    cases = upgraded.recording.by_case()
    shown = [cases[case]["_id"] for case in ("crashed", "waiting", "parked", "cancelled")]
    listed, table, *details = await asyncio.gather(
        unattended(upgraded.stage, "runs", "list", "--json"),
        unattended(upgraded.stage, "runs", "list"),
        *(unattended(upgraded.stage, "runs", "show", run_id) for run_id in shown),
    )
    assert recorded <= {run["run_id"] for run in listed.json}
    assert [each.code for each in (table, *details)] == [0] * (1 + len(shown))

    for name, value in upgraded.recording.cookies.items():  # a session that began at the old gateway
        upgraded.client.cookies.set(name, value)
    for path in ("/console", "/console/runs", "/console/triggers", "/console/usage"):
        page = await upgraded.client.get(path)
        assert page.status_code == 200, path
    for run_id in recorded:
        page, answer = await asyncio.gather(
            upgraded.client.get(f"/console/runs/{run_id}"), upgraded.call("GET", f"/v1/runs/{run_id}")
        )
        assert (page.status_code, answer.status_code) == (200, 200), run_id
        assert run_id in page.text


def _definition(index: Mapping[str, Any]) -> dict[str, Any]:
    return {**index, "key": [*index["key"].items()]}


def _number(turn: Document) -> int:
    return int(turn["number"])


def _ticks(runs: list[Document], trigger: str) -> list[datetime]:
    return [run["trigger"]["nominal_at"] for run in runs if run["trigger"]["name"] == trigger]
