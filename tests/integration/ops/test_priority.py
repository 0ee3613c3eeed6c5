"""Priorities from the command line and from triggers: what the run stores, and which run starts first."""

import asyncio
import os
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from ops.processes.supervisor import role_command
from tests.integration.ops.command import unattended
from tests.integration.role_forks import FORKS
from tests.integration.stage import Stage, relay, wait_until
from tests.integration.triggers.gateway_server import GITHUB_SECRET, sign_as_github
from workers.setting_values import Address
from workers.settings import as_environment

pytestmark = pytest.mark.integration

ROLES = ("gateway", "scheduler", "watcher")
ACME: dict[str, Any] = {"apps": ["acme"]}


def triggers(database: str) -> list[dict[str, Any]]:
    verify = {"scheme": "github", "secret": "env:GITHUB_SECRET"}
    form = {**ACME, "type": "form_submit", "inputs": {"region": {"type": "string"}}}
    return [
        {**ACME, "name": "tick", "type": "schedule", "every": "1s", "overlap": "allow", "priority": 9},
        {**ACME, "name": "order", "type": "db", "database": database, "collection": "orders", "priority": 0},
        {**ACME, "name": "opened", "type": "webhook", "verify": verify, "priority": 8},
        {**form, "name": "ask", "priority": 2},
        {**form, "name": "ask-some-time"},
    ]


@asynccontextmanager
async def running_roles(stage: Stage) -> AsyncIterator[httpx.AsyncClient]:
    """The roles that start runs, and a client of the gateway."""
    settings = replace(
        stage.settings, listen=Address("127.0.0.1", 0), environ={**os.environ, "GITHUB_SECRET": GITHUB_SECRET}
    )
    logs = {role: stage.folder / f"{role}.log" for role in ROLES}
    processes = [
        await FORKS.start(role_command(role), env=as_environment(settings), log=log, folder=stage.folder)
        for role, log in logs.items()
    ]
    try:
        for role, log in logs.items():
            await wait_until(f"the {role} is ready", lambda log=log, role=role: matches_in_log(log, f"{role}_ready"))  # type: ignore[misc]  # -- mypy cannot infer a lambda with a default
        ready = await matches_in_log(logs["gateway"], r"gateway_ready.* address=(\S+)")
        async with httpx.AsyncClient(base_url=f"http://{ready}") as client:
            yield client
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            await process.wait()


async def matches_in_log(log: Path, pattern: str) -> str | None:
    found = re.search(pattern, await asyncio.to_thread(log.read_text, encoding="utf-8"))
    return None if found is None else found[found.re.groups]


async def test_a_run_enqueued_as_urgent_starts_first(stage: Stage) -> None:
    stage.package("Relay", relay("Relay", ["A"]))
    asked: list[tuple[str, ...]] = [(), ("--priority", "0"), ("--priority", "9")]

    outputs = [await unattended(stage, "enqueue", "Relay", "--app", "acme", *each, "--json") for each in asked]
    refused = await unattended(stage, "enqueue", "Relay", "--app", "acme", "--priority", "10")
    run_ids = [each.json["run_id"] for each in outputs]
    shown = [await unattended(stage, "runs", "show", each, "--json") for each in run_ids]
    await stage.start_worker(concurrency=1)
    runs = [await stage.wait_for_end(each) for each in run_ids]

    assert [run["priority"] for run in runs] == [each.json["priority"] for each in shown] == [5, 0, 9]
    assert [asked[runs.index(run)] for run in sorted(runs, key=lambda run: run["started_at"])] == [
        ("--priority", "9"),
        (),
        ("--priority", "0"),
    ]
    assert refused.code == 2
    assert "10 is not in the range 0<=x<=9" in refused.err
    assert await stage.store.runs.count_documents({}) == len(asked)


async def test_the_priority_of_a_trigger_ends_in_its_runs(stage: Stage) -> None:
    """Every trigger type, fired by the role that serves it in production."""
    declared = triggers(stage.settings.database)
    stage.package("Digest", {**relay("Digest", ["A"]), "triggers": {"triggers": declared}})

    async def seen() -> dict[str, int] | None:
        await stage.store.database["orders"].insert_one({})
        runs = await stage.store.runs.find({}).to_list(None)
        priorities = {run["trigger"]["name"]: run["priority"] for run in runs}
        return priorities if len(priorities) == len(declared) else None

    async with running_roles(stage) as client:
        answers = [
            await client.post("/hooks/acme/Digest/opened", **sign_as_github({"action": "opened"})),
            await client.post("/forms/acme/Digest/ask", json={"region": "eu"}),
            await client.post("/forms/acme/Digest/ask-some-time", json={"region": "eu"}),
        ]
        priorities = await wait_until("each trigger has started a run", seen)
    listed = await unattended(stage, "triggers", "list", "--json")

    assert [answer.status_code for answer in answers] == [202, 202, 202]
    assert priorities == {"tick": 9, "order": 0, "opened": 8, "ask": 2, "ask-some-time": 5}
    assert {each["name"]: each["priority"] for each in listed.json} == priorities
