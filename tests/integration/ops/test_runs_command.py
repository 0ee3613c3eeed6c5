"""`unattended runs …` in a process of its own, with real workers: its changes and its output."""

import asyncio
import json
import signal
import time
from dataclasses import replace
from pathlib import Path

import pytest

from tests.integration.ops.command import start_command, unattended
from tests.integration.ops.terminal import terminal_dialogue
from tests.integration.stage import Document, Stage, relay, wait_until

pytestmark = pytest.mark.integration

STUBBORN = """
import time
from pathlib import Path

FOLDER = Path({folder!r})


def block():
    (FOLDER / "blocking").touch()
    time.sleep(50)
    return "never in time"


def failed(context_variables, error):
    with (FOLDER / "closed").open("a") as log:
        log.write(context_variables["run_id"] + "\\n")
"""
DISCARD = ("runs", "discard", "--app", "acme")
OUTCOME = {"kind": "model_error", "reason": "503 at the fifth attempt", "error": None}


def write_stubborn_package(stage: Stage) -> None:
    package = relay("Stubborn", ["A", "B"])
    package["tools"] = {
        "tools": [{"agent": "B", "file": "steps.py", "function": "block"}],
        "lifecycle_tools": [{"trigger": "on_fail", "file": "steps.py", "function": "failed"}],
    }
    package["tools/steps.py"] = STUBBORN.format(folder=str(stage.folder))
    stage.package("Stubborn", package)


async def insert_parked_run(stage: Stage, number: int) -> list[str]:
    template = await stage.run((await stage.accept("Relay", wake=False)).run_id)
    await stage.store.runs.delete_one({"_id": template["_id"]})
    del template["lane"]
    changes = {"state": "parked", "outcome": OUTCOME, "usage": {}, "finished_at": template["created_at"]}
    run_ids = [f"{template['_id'][:-4]}{each:04}" for each in range(number)]
    runs = [{**template, **changes, "_id": run_id, "dedupe_key": run_id} for run_id in run_ids]
    await stage.store.runs.insert_many(runs)
    return run_ids


async def exists(path: Path) -> bool:
    return path.exists()  # noqa: ASYNC240 -- one look at a local file, in a test


async def test_cancelled_running_runs_end_within_a_heartbeat_and_are_closed(stage: Stage) -> None:
    """Two runs: one waits for a model, one for a tool that blocks its thread."""
    write_stubborn_package(stage)
    stage.package("Waiting", relay("Waiting", ["Slow"]))
    usage = {"input": 10, "output": 2}
    stage.answers(
        {
            "A": [{"text": "done", "usage": usage}],
            "B": [{"tool_calls": [{"name": "block"}], "usage": usage}],
            "Slow": [{"text": "late", "delay_s": 50}] * 2,
        }
    )
    await stage.start_worker()
    in_tool = (await stage.accept("Stubborn")).run_id
    in_model = [(await stage.accept("Waiting")).run_id for _ in range(2)]
    await wait_until("the tool blocks", lambda: exists(stage.folder / "blocking"), within_s=10)

    async def all_run() -> bool:
        return await stage.store.runs.count_documents({"state": "running"}) == 3

    await wait_until("all are worked on", all_run)
    asked_at = time.monotonic()
    done = await unattended(stage, "runs", "cancel", in_tool, *(run_id[-8:] for run_id in in_model), "--json")
    runs = [await stage.wait_for_end(run_id, within_s=10) for run_id in (in_tool, *in_model)]

    assert time.monotonic() - asked_at < 6
    assert done.code == 0
    assert [each["state"] for each in done.json] == ["running"] * 3
    for run in runs:
        assert (run["state"], run["outcome"]["kind"]) == ("cancelled", "cancelled")
        assert run["outcome"]["reason"].startswith("cancelled by ")
        assert run["lease"]["owner"] is None
    assert (stage.folder / "closed").read_text().split() == [in_tool]
    assert (runs[0]["usage"]["calls"], runs[0]["usage"]["input_tokens"]) == (2, 20)
    again = await unattended(stage, "runs", "cancel", in_tool)
    assert (again.code, again.out) == (0, f"{in_tool}: was cancelled already\n")


async def test_a_run_that_was_cancelled_while_all_workers_were_down_never_runs(stage: Stage) -> None:
    stage.package("Relay", relay("Relay", ["A"]))
    cancelled = (await stage.accept("Relay", app_id="globex")).run_id
    other = (await stage.accept("Relay")).run_id

    done = await unattended(stage, "runs", "cancel", "--app", "globex", "--yes")
    await stage.start_worker()
    await stage.wait_for_end(other)

    assert (done.code, done.out) == (0, "cancel: 1 done, 0 refused\n")
    run = await stage.run(cancelled)
    assert (run["state"], run["lease"]["token"], run["turn"]) == ("cancelled", 0, 0)
    assert await stage.usage_rows(cancelled) == []


async def test_a_replay_of_many_that_was_killed_and_repeated_makes_one_each(stage: Stage) -> None:
    run_ids = await insert_parked_run(stage, 200)
    dry = await unattended(stage, "runs", "replay", "--state", "parked", "--dry-run")
    assert await stage.store.runs.count_documents({}) == 200

    async def some() -> bool:
        return await stage.store.runs.count_documents({"replay_of": {"$ne": None}}) >= 30

    first = await start_command(stage, "runs", "replay", "--state", "parked", "--yes")
    await wait_until("some are replayed", some)
    first.send_signal(signal.SIGKILL)
    await first.communicate()
    left = await stage.store.runs.count_documents({"state": "parked"})
    assert left > 0
    second = await unattended(stage, "runs", "replay", "--state", "parked", "--yes", "--json")

    assert dry.out.splitlines()[0].startswith(f"{run_ids[0]}  acme  Relay  test  parked  model_error")
    assert dry.out.splitlines()[-1] == "would replay 200 runs: state parked; nothing was changed"
    assert second.code == 0
    # The server may apply the killed command's last write after the count.
    assert 0 < second.json["changed"] + second.json["already"] <= left
    replays = await stage.store.runs.find({"replay_of": {"$ne": None}}).to_list(None)
    assert sorted(run["replay_of"] for run in replays) == run_ids
    old = await stage.store.runs.find({"_id": {"$in": run_ids}}).to_list(None)
    new_of = {run["replay_of"]: run["_id"] for run in replays}
    assert all(run["state"] == "cancelled" and run["outcome"] == OUTCOME for run in old)
    assert {run["_id"]: run["resolved"]["run_id"] for run in old} == new_of


async def test_a_replay_while_redis_is_away_is_soon_reported_as_accepted(stage: Stage) -> None:
    [run_id] = await insert_parked_run(stage, 1)
    stage.settings = replace(stage.settings, redis_url="redis://127.0.0.1:9/0")

    began = time.monotonic()
    done = await unattended(stage, "runs", "replay", run_id)

    assert done.code == 0
    assert done.out.startswith(f"{run_id}: replayed as run_")
    assert "wakeups_left_to_reconciler count=1 reason=" in done.err
    assert time.monotonic() - began < 15


async def test_a_live_run_is_followed_turn_by_turn_to_its_end(stage: Stage) -> None:
    stage.package("Relay", relay("Relay", ["A", "B", "C"]))
    answer = {"text": "hello\nthere", "delay_s": 0.3, "usage": {"input": 10, "output": 2}}
    stage.answers({agent: [answer] * 2 for agent in "ABC"})
    run_id = (await stage.accept("Relay", wake=False)).run_id
    one = await start_command(stage, "runs", "tail", run_id[-6:])
    everything = await start_command(stage, "runs", "tail", "--app", "acme", "--json")
    assert everything.stdout is not None
    assert everything.stderr is not None
    assert b"Ctrl-C" in await asyncio.wait_for(everything.stderr.readline(), 30)
    await stage.start_worker()
    stage.wakeups.send(run_id)

    out, err = await asyncio.wait_for(one.communicate(), 30)
    second = (await stage.accept("Relay")).run_id
    lines: list[Document] = []
    while not lines or (lines[-1]["run_id"], lines[-1]["event"]) != (second, "ended"):
        lines.append(json.loads(await asyncio.wait_for(everything.stdout.readline(), 30)))
    everything.send_signal(signal.SIGINT)
    _, trouble = await everything.communicate()

    message = [line[10:] for line in out.decode().splitlines()]
    assert (one.returncode, err, message[0]) == (0, b"", "accepted from test")
    assert message[1].startswith("claimed by ")
    assert [line.split("  (")[0] for line in message[2:5]] == ["1. A → B", "2. B → C", "3. C → terminate"]
    assert message[2].endswith("hello there")
    assert message[5].startswith("succeeded, completed: ")
    assert (everything.returncode, trouble) == (130, b"\n")
    turns = [(line["run_id"], line["number"], line["agent"]) for line in lines if line["event"] == "turn"]
    assert turns == [(each, number, "ABC"[number - 1]) for each in (run_id, second) for number in (1, 2, 3)]
    assert [line["event"] for line in lines if line["run_id"] == second] == [
        "accepted",
        "claimed",
        *["turn"] * 3,
        "ended",
    ]


async def test_the_story_of_a_run_that_was_retried_parked_and_replayed(stage: Stage) -> None:
    stage.package("Relay", relay("Relay", ["A", "B"]))
    stage.answers({"A": [{"text": "first"}], "B": [{"error": {"status": 503}}] * 4})
    await stage.start_worker(max_attempts=2)
    run_id = (await stage.accept("Relay")).run_id

    async def retried() -> bool:
        return bool((await stage.run(run_id))["attempt"] == 2)

    await wait_until("it waits for its next attempt", retried)
    waits = await unattended(stage, "runs", "show", run_id)
    now = await unattended(stage, "runs", "retry-now", run_id)
    run = await stage.wait_for_end(run_id)
    shown = await unattended(stage, "runs", "show", run_id[-6:])
    replayed = await unattended(stage, "runs", "replay", run_id, "--json")
    story = (await unattended(stage, "runs", "show", run_id, "--json")).json

    assert "→ start it now: unattended runs retry-now" in waits.out
    assert now.code == 0
    assert run["state"] == "parked"
    lines = shown.out.splitlines()
    assert lines[0] == f"{run_id}  Relay for acme"
    assert lines[1].startswith("parked, model_error: ")
    assert lines[-2:] == [
        f"→ replay it: unattended runs replay {run_id}",
        f"→ or discard it: unattended runs discard {run_id}",
    ]
    assert sum("lease" in line for line in lines) == 2
    assert any(line.startswith("  retry after turn 1: ") for line in lines)
    assert "\x1b" not in shown.out
    [new] = replayed.json
    assert (story["state"], story["replays"], story["outcome"]["kind"]) == (
        "cancelled",
        [new["new_run_id"]],
        "model_error",
    )
    assert [turn["agent"] for turn in story["turns"]] == ["A"]
    assert story["usage"]["calls"] >= 3


async def test_lists_are_filtered_and_refusals_are_one_line_with_an_exit_code(stage: Stage) -> None:
    stage.package("Relay", relay("Relay", ["A"]))
    ours = (await stage.accept("Relay", wake=False)).run_id
    theirs = (await stage.accept("Relay", app_id="globex", wake=False)).run_id
    failing = {"state": "failed", "outcome": OUTCOME, "failed_tools": 2}
    await stage.store.runs.update_one({"_id": theirs}, {"$set": failing})

    async def listed(*arguments: str) -> list[str]:
        done = await unattended(stage, "runs", "list", *arguments, "--json")
        assert done.code == 0, done.err
        return [run["run_id"] for run in done.json]

    filters: dict[tuple[str, ...], list[str]] = {
        ("--since", "1h", "--trigger", "test"): [theirs, ours],
        ("--state", "failed", "--state", "parked", "--outcome", "model_error", "--trigger", "api"): [theirs],
    }
    found = await asyncio.gather(*(listed(*each) for each in filters))
    assert list(found) == list(filters.values())

    table = await unattended(stage, "runs", "list")
    assert [line.split("\t")[-1] for line in table.out.splitlines()] == ["failed calls", "2", ""]
    without = await unattended(stage, "runs", "list", "--app", "acme")
    assert without.out.splitlines()[0].endswith("\tcreated")
    assert [line.split("\t")[:6] for line in table.out.splitlines()[1:]] == [
        [theirs, "globex", "Relay", "test", "failed", "model_error"],
        [ours, "acme", "Relay", "test", "queued", ""],
    ]

    refused: list[tuple[tuple[str, ...], int, str]] = [
        (("cancel", theirs), 1, f"unattended: {theirs} has failed already; nothing is left to cancel\n"),
        (("tail", "run_none"), 1, "unattended: there is no run run_none; `unattended runs list` lists the runs\n"),
        (("replay", ours), 1, f"unattended: {ours} is queued: it has not run yet\n"),
        (("cancel", "--app", "acme"), 2, "whether to cancel 1 run (app acme, state queued or running or needs_human)"),
        (("list", "--since", "1h", "--until", "2h"), 2, "--since must be before --until"),
        (("discard", ours, "--app", "acme"), 2, "name runs or use filters, not both"),
    ]
    results = await asyncio.gather(*(unattended(stage, "runs", *each) for each, _, _ in refused))
    for done, (arguments, code, message) in zip(results, refused, strict=True):
        assert done.code == code, arguments
        assert done.err == message if code == 1 else message in done.err


async def test_many_are_asked_for_on_a_terminal_first(stage: Stage) -> None:
    """A dialogue with the command itself, in a pseudo-terminal."""
    run_ids = await insert_parked_run(stage, 25)

    refused, interrupted = await asyncio.gather(
        asyncio.to_thread(terminal_dialogue, stage, "n", *DISCARD),
        asyncio.to_thread(terminal_dialogue, stage, None, *DISCARD),
    )
    assert await stage.store.runs.count_documents({"state": "parked"}) == 25
    agreed = await asyncio.to_thread(terminal_dialogue, stage, "y", *DISCARD)

    assert run_ids[9] in refused
    assert run_ids[10] not in refused
    assert "… and 15 more" in refused
    assert "discard 25 runs (app acme, state parked)? [y/N]" in refused
    assert "nothing was changed" in refused
    assert interrupted.endswith("[y/N]: 130")
    assert "25 of 25" in agreed
    assert "discard: 25 done, 0 refused" in agreed
    assert await stage.store.runs.count_documents({"state": "cancelled"}) == 25
