"""Replays of runs with effects: warnings, prompts, and the idempotency keys of tools."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.integration.ops.command import unattended
from tests.integration.ops.terminal import terminal_dialogue
from tests.integration.stage import Document, Stage, relay

pytestmark = pytest.mark.integration

# A lookup without effect, and a refund that the payments server accepts once per key.
TOOLS = """
from urllib.request import urlopen


def look(order_id: str):
    return "paid"


def refund(amount: int, turn_idempotency_key: str, context_variables=None):
    with urlopen(f"http://127.0.0.1:{port}/refunds/{{turn_idempotency_key}}") as answer:
        answer.read()
    context_variables.set("order", {{"status": "refunded"}})
    return "refunded"
"""


@asynccontextmanager
async def payments() -> AsyncIterator[tuple[int, Counter[str]]]:
    """A payments server: its port, and the requested refunds by idempotency key."""
    asked: Counter[str] = Counter()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        asked[head.split(" ")[1].rpartition("/")[2]] += 1
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1], asked


async def till(stage: Stage, port: int, strategy: str) -> None:
    """A package that refunds an order, and fails to write back the order's status."""
    order = {
        "type": "data_entity",
        "database_name": stage.store.database.name,
        "collection": "orders",
        "query_template": {"_id": "{{order_id}}"},
        "fields": ["status"],
        "write_strategy": strategy,
    }
    package = relay("Till", ["Payer"], inputs={"order_id": {"type": "string", "required": True}})
    package["tools"] = {
        "tools": [
            {"agent": "Payer", "file": "till.py", "function": "look", "effects": "none"},
            {"agent": "Payer", "file": "till.py", "function": "refund"},
        ]
    }
    package["tools/till.py"] = TOOLS.format(port=port)
    package["context_variables"] = {"definitions": {"order": {"type": "object", "source": order}}}
    stage.package("Till", package)
    look, pay = {"name": "look", "arguments": {"order_id": "o-7"}}, {"name": "refund", "arguments": {"amount": 12}}
    stage.answers({"Payer": [{"tool_calls": [look]}, {"tool_calls": [pay]}, {"text": "refunded"}]})
    await stage.store.database.create_collection("orders", validator={"status": {"$ne": "refunded"}})
    await stage.store.database["orders"].insert_one({"_id": "o-7", "app_id": "acme", "status": "paid"})
    await stage.start_worker()


async def run_failed_refund(stage: Stage) -> Document:
    run = await stage.wait_for_end((await stage.accept("Till", input={"order_id": "o-7"})).run_id)
    assert run["state"] == "failed", run["outcome"]
    assert "order is not written to" in run["outcome"]["reason"]
    return run


async def replay_run(stage: Stage, run_id: str, *options: str) -> Document:
    done = await unattended(stage, "runs", "replay", run_id, "--yes", "--json", *options)
    assert done.code == 0, done.err
    return await stage.wait_for_end(done.json[0]["new_run_id"])


@pytest.mark.parametrize(("strategy", "turns"), [("immediate", 0), ("on_success", 1)])
async def test_a_refund_with_a_failed_write_back_has_one_key_in_all_replays(
    stage: Stage, strategy: str, turns: int
) -> None:
    async with payments() as (port, refunds):
        await till(stage, port, strategy)
        first = await run_failed_refund(stage)
        assert first["turn"] == turns  # with `immediate` the turn itself was not stored

        shown = await unattended(stage, "runs", "show", first["_id"])
        unasked = await unattended(stage, "runs", "replay", first["_id"])
        second = await replay_run(stage, first["_id"])
        await stage.store.database.command("collMod", "orders", validator={})
        third = await replay_run(stage, second["_id"])

        happened = "turn 1: refund(amount=12) was called"
        assert f"  {happened}" in shown.out.splitlines()
        assert shown.out.index(happened) < shown.out.index(f"unattended runs replay {first['_id']}")
        assert (unasked.code, happened in unasked.err, "use --yes" in unasked.err) == (1, True, True)
        assert "look(" not in unasked.err  # it has no effects
        assert await stage.store.runs.count_documents({}) == 3
        assert [run["state"] for run in (second, third)] == ["failed", "succeeded"]
        assert [run["keys_of"] for run in (second, third)] == [first["_id"]] * 2
        assert refunds == {f"{first['_id']}:1": 3}
        [order] = await stage.store.database["orders"].find().to_list(None)
        assert order == {"_id": "o-7", "app_id": "acme", "status": "refunded"}

        # With --repeat-done, and after a success, all effects happen again.
        fourth = await replay_run(stage, third["_id"])
        fifth = await replay_run(stage, first["_id"], "--again", "--new-keys")
        assert {"keys_of"} & (fourth.keys() | fifth.keys()) == set()
        assert refunds == {f"{run['_id']}:1": count for run, count in ((first, 3), (fourth, 1), (fifth, 1))}
        story = (await unattended(stage, "runs", "show", third["_id"], "--json")).json
        assert [write["variable"] for write in story["done"]["writes"]] == ["order"]
        assert (story["done"]["keys"], story["done"]["writes"][0]["key_value"]) == ("new", "o-7")
        succeeded = await unattended(stage, "runs", "replay", third["_id"], "--again")
        assert "order was written to" in succeeded.err
        assert "new idempotency keys, since the run succeeded" in succeeded.err


async def test_a_terminal_is_prompted_and_can_decline(stage: Stage) -> None:
    async with payments() as (port, refunds):
        await till(stage, port, "on_success")
        run = await run_failed_refund(stage)

        no = await asyncio.to_thread(terminal_dialogue, stage, "n", "runs", "replay", run["_id"])
        assert await stage.store.runs.count_documents({}) == 1
        yes = await asyncio.to_thread(terminal_dialogue, stage, "y", "runs", "replay", run["_id"])

        for seen in (no, yes):
            assert "turn 1: refund(amount=12) was called" in seen
            assert "the same turn_idempotency_key" in seen
            assert f"replay {run['_id']}, although this happens again? [y/N]" in seen
        assert no.endswith("1")
        assert yes.endswith("0")
        new = await stage.store.runs.find_one({"replay_of": run["_id"]})
        assert new is not None
        await stage.wait_for_end(new["_id"])
        assert refunds == {f"{run['_id']}:1": 2}


async def test_many_are_replayed_but_for_those_that_have_done_something(stage: Stage) -> None:
    async with payments() as (port, _):
        await till(stage, port, "on_success")
        done = await run_failed_refund(stage)
        clean = (await stage.accept("Till", wake=False)).run_id
        outcome = {"kind": "timeout", "reason": "", "error": None}
        await stage.store.runs.update_one({"_id": clean}, {"$set": {"state": "failed", "outcome": outcome}})

        dry = await unattended(stage, "runs", "replay", "--workflow", "Till", "--dry-run")
        many = await unattended(stage, "runs", "replay", "--workflow", "Till", "--state", "failed", "--yes")
        result = await unattended(stage, "runs", "replay", "--app", "acme", "--state", "failed", "--yes", "--json")
        everything = await unattended(
            stage, "runs", "replay", "--workflow", "Till", "--state", "failed", "--yes", "--repeat-done", "--json"
        )

        skipped = f"{done['_id']} skipped, as a replay would repeat: turn 1: refund(amount=12) was called"
        assert skipped.replace("skipped", "would be skipped", 1) in dry.out.splitlines()
        assert dry.code == 0
        assert many.out.strip() == "replay: 1 done, 1 skipped, 0 refused"
        assert skipped in many.err.splitlines()
        assert "--repeat-done" in many.err
        assert many.code == 1
        assert (result.json["already"], result.json["skipped"]) == (1, 1)
        assert result.json["skipped_runs"] == [
            {"run_id": done["_id"], "done": ["turn 1: refund(amount=12) was called"]}
        ]
        assert (everything.code, everything.json["skipped"]) == (0, 0)
        assert await stage.store.runs.count_documents({"replay_of": done["_id"]}) == 1


@pytest.mark.parametrize("kept", ["its worker died", "an older version"])
async def test_a_turn_without_records_is_called_unknown(stage: Stage, kept: str) -> None:
    async with payments() as (port, _):
        await till(stage, port, "immediate")
        run = await run_failed_refund(stage)
        changes: dict[str, Any] = {"$unset": {"unfinished": ""}} if kept == "an older version" else {}
        if kept == "its worker died":  # the last owner took no turn, as after a limit
            changes = {"$set": {"unfinished.tokens": [2], "unfinished.calls": []}}
        await stage.store.runs.update_one({"_id": run["_id"]}, changes)

        refused = await unattended(stage, "runs", "replay", run["_id"])
        advised = await unattended(stage, "runs", "retry-now", run["_id"])

        unknown = "turn 1 was not finished; what its tools did is not known"
        assert (refused.code, advised.code) == (1, 1)
        assert unknown in refused.err
        assert f"a replay starts it anew, and does again what it has done: {unknown}" in advised.err
