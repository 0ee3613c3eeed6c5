"""The shipped rules on a real Prometheus and Alertmanager, with all roles scraped.

Alerts fire when a worker is stopped, a stream is suspended or a budget is spent, and end after the runbook's repair."""

import asyncio
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from accounting.budgets.budget import parse_budget
from accounting.budgets.budget_store import BudgetStore
from ops.processes.role_processes import ROLES
from tests.alertmanager_server import Alertmanager, alertmanager
from tests.integration.ops.all_roles import Roles, all_roles
from tests.integration.stage import Stage, relay, wait_until
from tests.prometheus_server import PrometheusServer, prometheus, scrape_config
from triggers.change_stream.stream_control import NOW, StreamControl

pytestmark = pytest.mark.integration

OPS = Path(__file__).parents[3] / "ops"
WORKER_STOPPED = {"UnattendedNoWorker", "UnattendedRoleDown"}
TROUBLE = {*WORKER_STOPPED, "UnattendedStreamSuspended", "UnattendedBudgetSpent"}


def impatient_rules(folder: Path) -> list[Path]:
    """The shipped rules, without the minutes that a condition has to last."""
    folder.mkdir()
    for path in (OPS / "alerts").glob("*.yaml"):
        shipped = path.read_text(encoding="utf-8")
        (folder / path.name).write_text(re.sub(r"^( +)(for|interval): \w+", r"\1\2: 1s", shipped, flags=re.MULTILINE))
    return sorted(folder.glob("*.yaml"))


def scrape_config_for(targets: Path, *, rules: list[Path], alertmanager: Alertmanager) -> dict[str, Any]:
    """Scrape addresses from a file, as a restarted role listens on another port."""
    config = scrape_config({}, rule_files=rules, alertmanager=alertmanager.address)
    [job] = config["scrape_configs"]
    del job["static_configs"]
    job["file_sd_configs"] = [{"files": [str(targets)], "refresh_interval": "1s"}]
    return config


def write_targets(file: Path, at: Mapping[str, str]) -> None:
    new = file.with_suffix(".new")
    new.write_text(json.dumps([{"targets": [address], "labels": {"role": role}} for role, address in at.items()]))
    new.replace(file)


class AlertWatch:
    """Query Prometheus and Alertmanager in a thread."""

    def __init__(self, server: PrometheusServer, alertmanager: Alertmanager) -> None:
        self._server = server
        self._alertmanager = alertmanager

    async def has_scraped_all(self) -> bool:
        return await asyncio.to_thread(self._server.up) == dict.fromkeys(ROLES, True)

    async def notified_alerts(self) -> dict[str, str]:
        """Return firing alerts by name, and whether Alertmanager notifies about each."""
        found = await asyncio.to_thread(self._alertmanager.alerts)
        return {labels["alertname"]: state for labels, state in found if state != "unprocessed"}

    async def has_all(self, *names: str) -> bool:
        return {*names} <= (await self.notified_alerts()).keys()

    async def has_none(self, *names: str) -> bool:
        return not {*names} & (await self.notified_alerts()).keys()

    async def has_evaluated_all(self) -> bool:
        return all(rule["health"] != "unknown" for rule in await self.rules())

    async def rules(self) -> list[dict[str, Any]]:
        groups = (await asyncio.to_thread(self._server.api, "rules", {}))["groups"]
        return [rule for group in groups for rule in group["rules"]]

    async def targets(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = (await asyncio.to_thread(self._server.api, "targets", {}))["activeTargets"]
        return found


async def lose_history(stage: Stage, roles: Roles, stream: str) -> None:
    """Suspend a stream, as when the oplog no longer holds its position."""
    await roles.stop("watcher")
    lost = {"$set": {"resume_token": {"_data": "82"}, "token_time": None}}
    assert (await stage.store.database["streams"].update_one({"_id": stream}, lost)).matched_count == 1
    await roles.start("watcher")


async def test_alerts_reach_the_alertmanager_and_end_after_the_repair(stage: Stage, tmp_path: Path) -> None:
    shop, targets = f"shop_{stage.settings.database}", tmp_path / "targets.json"
    change = {"name": "paid", "type": "db", "database": shop, "collection": "orders", "apps": ["acme"]}
    stage.package("Orders", {**relay("Orders", ["A"]), "triggers": {"triggers": [change]}})
    limit = parse_budget(app_id="acme", window="day", unit="tokens", limit=10)
    await BudgetStore(stage.store.database).set(limit, by="test")
    with alertmanager(tmp_path, OPS / "alertmanager" / "alertmanager.yml") as notifications:
        async with all_roles(stage) as roles:
            write_targets(targets, roles.at)
            config = scrape_config_for(targets, rules=impatient_rules(tmp_path / "rules"), alertmanager=notifications)
            with prometheus(tmp_path, config) as server:
                watch = AlertWatch(server, notifications)
                await wait_until("all roles are scraped", watch.has_scraped_all)
                await wait_until("every rule is evaluated", watch.has_evaluated_all)
                await wait_until("nothing is wrong", lambda: watch.has_none(*TROUBLE))
                await assert_prometheus_is_well(watch)

                await stage.wait_for_end((await stage.accept("Orders")).run_id)  # twelve of ten tokens
                await roles.stop("worker")
                await lose_history(stage, roles, shop)
                write_targets(targets, roles.at)

                await wait_until("all of it is told", lambda: watch.has_all(*TROUBLE))
                assert (await watch.notified_alerts())[
                    "UnattendedNoWorker"
                ] == "suppressed"  # the alert about missing workers inhibits it
                await StreamControl(stage.store.database).resume(shop, NOW, by="test")
                await roles.start("worker")
                write_targets(targets, roles.at)

                mended = TROUBLE - {"UnattendedBudgetSpent"}
                await wait_until("what is mended has ended", lambda: watch.has_none(*mended))
                assert await watch.has_all("UnattendedBudgetSpent")
                await wait_until("all roles are scraped again", watch.has_scraped_all)
    await stage.store.database.client.drop_database(shop)


async def assert_prometheus_is_well(watch: AlertWatch) -> None:
    scrapes = {each["labels"]["role"]: (each["health"], each["lastError"]) for each in await watch.targets()}
    rules = await watch.rules()

    assert scrapes == dict.fromkeys(ROLES, ("up", ""))
    assert {rule["name"] for rule in rules} > TROUBLE
    assert {rule["name"]: rule["lastError"] for rule in rules if rule["health"] != "ok"} == {}
