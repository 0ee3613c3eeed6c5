"""Schemathesis holds /v1 to its own OpenAPI document: all of its checks, on a real gateway with a real store."""

import asyncio
import re
import sys
from asyncio.subprocess import PIPE, STDOUT
from pathlib import Path

import pytest

from tests.chaos.lengths import LONG
from tests.integration.triggers.api.conftest import ApiClient
from tests.integration.triggers.gateway_server import Gateway
from triggers.api_keys import ApiKeys, parse_rate

pytestmark = pytest.mark.integration

EXAMPLES = 100 if LONG else 3
LIMIT_S = 1800 if LONG else 180
# What makes a spec a good one, such as whether a cron can ever fire, is more than a schema can say: there 422 is an
# answer to what looks valid. Budgets are set with a key of all apps.
CONFIG = """
headers = {{ Authorization = "Bearer {key}" }}
[[operations]]
include-tag = "Budgets"
headers = {{ Authorization = "Bearer {operator}" }}
[[operations]]
include-operation-id = [
    "make_trigger", "edit_trigger", "remove_trigger", "fire_trigger", "backfill_trigger", "set_budget"
]
[operations.checks.positive_data_acceptance]
expected-statuses = ["2xx", "401", "403", "404", "409", "412", "422", "428", "429", "503"]
"""
QUESTION = {"kind": "message", "number": 1}


async def with_runs(gateway: Gateway) -> None:
    """One that is queued, one that asks something, and one that has ended: operations need something to do."""
    client = ApiClient(gateway, await ApiKeys(gateway.ground.database).create("shop", "acme"))
    asked = {"state": "needs_human", "question": QUESTION, "questions": [QUESTION]}
    for changes in ({}, asked, {"state": "failed"}):
        run_id = await client.start(input={"n": 1})
        if changes:
            await gateway.ground.store.runs.update_one({"_id": run_id}, {"$set": changes})


async def schemathesis(gateway: Gateway, folder: Path, *arguments: str) -> str:
    """In a process of its own: it brings warnings, threads and Hypothesis profiles with it."""
    keys, rate = ApiKeys(gateway.ground.database), parse_rate("100000/s")
    key = await keys.create("schemathesis", "acme", rate=rate, may=("approve",))
    operator = await keys.create("schemathesis of all apps", None, rate=rate)
    host, port = gateway.address[:2]
    bounds = ("--max-examples", str(EXAMPLES), "--suppress-health-check", "all")
    options = ("--checks", "all", *bounds, "--seed", "1", "--no-color", *arguments)
    config = folder / "schemathesis.toml"  # else it takes what it finds in a folder above
    config.write_text(CONFIG.format(key=key, operator=operator), encoding="utf-8")
    command = (sys.executable, "-m", "schemathesis.cli", "--config-file", str(config), "run")
    process = await asyncio.create_subprocess_exec(
        *(*command, f"http://{host}:{port}/openapi.json", *options),
        cwd=folder,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=PIPE,
        stderr=STDOUT,
    )
    try:
        said, _ = await asyncio.wait_for(process.communicate(), LIMIT_S)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    text = said.decode()
    assert process.returncode == 0, text
    return text


@pytest.mark.timeout(LIMIT_S + 30)
async def test_every_operation_behaves_as_described(gateway: Gateway, tmp_path: Path) -> None:
    await with_runs(gateway)
    document = (await gateway.client.get("/openapi.json")).json()
    described = sum(len(methods) for methods in document["paths"].values())

    said = await schemathesis(gateway, tmp_path)

    assert re.search(rf"\bTested: {described}\b", said), said
    generated = re.search(r"(\d+) generated", said)
    assert generated is not None
    assert int(generated[1]) > 20 * described, said
    assert await gateway.ground.database["budgets"].count_documents({}) > 0, said
    assert "returned only 401/403 responses" not in said
