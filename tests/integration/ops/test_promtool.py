"""The metrics of every role, with series of all kinds, checked by promtool."""

import re
from functools import partial
from typing import Any

import httpx
import pytest

from accounting.budgets.budget import parse_budget
from accounting.budgets.budget_store import BudgetStore
from ops.processes.role_processes import ROLES
from tests.integration.ops.all_roles import all_roles
from tests.integration.stage import Stage, relay, wait_until
from tests.integration.triggers.gateway_server import GITHUB_SECRET, sign_as_github
from tests.promtool import promtool

pytestmark = pytest.mark.integration

# One metric per role that exists only after some work.
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


async def test_promtool_takes_what_every_role_exposes(stage: Stage) -> None:
    stage.package("Relay", package(stage.settings.database))
    failing = [{"tool_calls": [{"name": "work"}]}, {"text": "worked"}]
    stage.answers({"A": failing, "B": [{"error": {"status": 400}}]})
    await BudgetStore(stage.store.database).set(
        parse_budget(app_id="acme", window="day", unit="usd", limit=5), by="test"
    )
    pages: dict[str, str] = {}
    async with all_roles(stage, GITHUB_SECRET=GITHUB_SECRET) as roles, httpx.AsyncClient(timeout=30) as client:

        async def page_of(role: str) -> str | None:
            try:
                pages[role] = (await client.get(f"http://{roles.at[role]}/metrics")).text
            except httpx.TransportError:
                return None  # the role is still starting
            return pages[role]

        await wait_until("the gateway answers", partial(page_of, "gateway"))
        hook = f"http://{roles.at['gateway']}/hooks/acme/Relay/opened"
        answers = [(await client.post(hook, **sign_as_github({"n": 1}, delivery="d-1"))).status_code for _ in range(2)]
        await stage.store.database["orders"].insert_one({"n": 1})
        for role, sign in SIGNS.items():

            async def shown(role: str = role, sign: str = sign) -> bool:
                return re.search(sign, await page_of(role) or "") is not None

            await wait_until(f"the {role} has something to show", shown)

    results = {role: promtool("check", "metrics", stdin=page.encode()) for role, page in pages.items()}

    assert answers == [202, 200]
    assert results == dict.fromkeys(ROLES, (0, ""))
    assert 'unattended_budget_limit{app="acme",workflow="",window="day",unit="usd"} 5.0' in pages["exporter"]
    assert all("app=" not in page for role, page in pages.items() if role != "exporter")
