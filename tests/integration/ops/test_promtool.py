"""What every role exposes, with series of all kinds in it, as promtool reads it."""

import asyncio
import os
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import httpx
import pytest

from accounting.budgets.budget import checked_budget
from accounting.budgets.store import Budgets
from ops.free_ports import free_address
from ops.supervisor import role_command
from tests.integration.role_forks import FORKS
from tests.integration.stage import Stage, relay, until
from tests.integration.triggers.gateway_server import GITHUB_SECRET, github_signed
from tests.promtool import promtool
from workers.settings import as_environment

pytestmark = pytest.mark.integration

ROLES = ("worker", "scheduler", "watcher", "gateway", "exporter")
# Of each role one that is there only when it has done something.
SIGNS = {
    "worker": r'unattended_tool_errors_total\{tool="work",workflow="Relay"\} [1-9]',
    "scheduler": r'unattended_schedule_lag_seconds\{trigger="Relay/tick"\}',
    "watcher": r'unattended_stream_state\{stream="[^"]+"\} 1',
    "gateway": r'unattended_duplicates_dropped_total\{trigger="Relay/opened"\} 1',
    "exporter": r"unattended_usage_missing_total\{.*\} [1-9]",
}
TOOL = "def work():\n    raise ValueError('broken')\n"


def package(database: str) -> dict[str, Any]:
    acme = {"apps": ["acme"]}
    verify = {"scheme": "github", "secret": "env:GITHUB_SECRET"}
    return {
        **relay("Relay", ["A", "B"]),
        "tools": {"tools": [{"agent": "A", "file": "work.py", "function": "work"}]},
        "tools/work.py": TOOL,
        "triggers": {
            "triggers": [
                {**acme, "name": "tick", "type": "schedule", "every": "1s", "overlap": "skip"},
                {**acme, "name": "order", "type": "db", "database": database, "collection": "orders"},
                {**acme, "name": "opened", "type": "webhook", "verify": verify},
            ]
        },
    }


@asynccontextmanager
async def all_roles(stage: Stage) -> AsyncIterator[dict[str, str]]:
    """By role, where its metrics are."""
    environ = {**os.environ, "GITHUB_SECRET": GITHUB_SECRET}
    settings = replace(stage.settings, listen=free_address(), environ=environ)
    exporter = replace(settings, metrics_listen=free_address())
    logs = {role: stage.folder / f"{role}.log" for role in ROLES}
    processes = [
        await FORKS.start(
            role_command(role),
            env=as_environment(exporter if role == "exporter" else settings),
            log=log,
            folder=stage.folder,
        )
        for role, log in logs.items()
    ]
    at = {"gateway": str(settings.listen), "exporter": str(exporter.metrics_listen)}

    async def listening() -> bool:
        for role in {*ROLES} - at.keys():
            said = await asyncio.to_thread(logs[role].read_text, encoding="utf-8")
            if found := re.search(r"metrics_listening\s+address=(\S+)", said):
                at[role] = found[1]
        return len(at) == len(ROLES)

    try:
        await until("every role says where its metrics are", listening)
        yield at
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            await process.wait()


async def test_promtool_takes_what_every_role_exposes(stage: Stage) -> None:
    stage.package("Relay", package(stage.settings.database))
    failing = [{"tool_calls": [{"name": "work"}]}, {"text": "worked"}]
    stage.answers({"A": failing, "B": [{"error": {"status": 400}}]})
    await Budgets(stage.store.database).set(checked_budget(app_id="acme", window="day", unit="usd", limit=5), by="test")
    pages: dict[str, str] = {}
    async with all_roles(stage) as at, httpx.AsyncClient(timeout=30) as client:

        async def page_of(role: str) -> str | None:
            try:
                pages[role] = (await client.get(f"http://{at[role]}/metrics")).text
            except httpx.TransportError:
                return None  # it is still starting
            return pages[role]

        await until("the gateway answers", partial(page_of, "gateway"))
        hook = f"http://{at['gateway']}/hooks/acme/Relay/opened"
        answers = [(await client.post(hook, **github_signed({"n": 1}, delivery="d-1"))).status_code for _ in range(2)]
        await stage.store.database["orders"].insert_one({"n": 1})
        for role, sign in SIGNS.items():

            async def shown(role: str = role, sign: str = sign) -> bool:
                return re.search(sign, await page_of(role) or "") is not None

            await until(f"the {role} has something to show", shown)

    said = {role: promtool("check", "metrics", given=page.encode()) for role, page in pages.items()}

    assert answers == [202, 200]
    assert said == dict.fromkeys(ROLES, (0, ""))
    assert 'unattended_budget_limit{app="acme",workflow="",window="day",unit="usd"} 5.0' in pages["exporter"]
    assert all("app=" not in page for role, page in pages.items() if role != "exporter")
