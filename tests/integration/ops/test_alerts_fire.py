"""The shipped rules on a real Prometheus and Alertmanager: all roles are scraped, alerts fire when a worker is stopped,
a stream is suspended and a budget is spent, and they end after the runbook's repair."""

import asyncio
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from accounting.budgets.budget import checked_budget
from accounting.budgets.store import Budgets
from ops.roles import ROLES
from tests.alertmanager_server import Alertmanager, alertmanager
from tests.integration.ops.all_roles import Roles, all_roles
from tests.integration.stage import Stage, relay, until
from tests.prometheus_server import PrometheusServer, prometheus, scrape_config
from triggers.change_stream.control import NOW, StreamControl

pytestmark = pytest.mark.integration

OPS = Path(__file__).parents[3] / "ops"
WORKER_STOPPED = {"UnattendedNoWorker", "UnattendedRoleDown"}
TROUBLE = {*WORKER_STOPPED, "UnattendedStreamSuspended", "UnattendedBudgetSpent"}


def impatient_rules(folder: Path) -> list[Path]:
    """As they are shipped, but nothing has to last for minutes before somebody hears of it."""
    folder.mkdir()
    for path in (OPS / "alerts").glob("*.yaml"):
        shipped = path.read_text(encoding="utf-8")
        (folder / path.name).write_text(re.sub(r"^( +)(for|interval): \w+", r"\1\2: 1s", shipped, flags=re.MULTILINE))
    return sorted(folder.glob("*.yaml"))


def following(targets: Path, *, rules: list[Path], told: Alertmanager) -> dict[str, Any]:
    """A role that is started again listens elsewhere: its address is read from a file."""
    config = scrape_config({}, rule_files=rules, alertmanager=told.address)
    [job] = config["scrape_configs"]
    del job["static_configs"]
    job["file_sd_configs"] = [{"files": [str(targets)], "refresh_interval": "1s"}]
    return config


def write_targets(file: Path, at: Mapping[str, str]) -> None:
    new = file.with_suffix(".new")
    new.write_text(json.dumps([{"targets": [address], "labels": {"role": role}} for role, address in at.items()]))
    new.replace(file)


class Watch:
    """What Prometheus and Alertmanager say, asked beside the event loop."""

    def __init__(self, server: PrometheusServer, told: Alertmanager) -> None:
        self._server = server
        self._told = told

    async def scraped(self) -> bool:
        return await asyncio.to_thread(self._server.up) == dict.fromkeys(ROLES, True)

    async def told(self) -> dict[str, str]:
        """By the names of the alerts that fire: whether somebody hears of it."""
        found = await asyncio.to_thread(self._told.alerts)
        return {labels["alertname"]: state for labels, state in found if state != "unprocessed"}

    async def all_of(self, *names: str) -> bool:
        return {*names} <= (await self.told()).keys()

    async def none_of(self, *names: str) -> bool:
        return not {*names} & (await self.told()).keys()

    async def evaluated(self) -> bool:
        return all(rule["health"] != "unknown" for rule in await self.rules())

    async def rules(self) -> list[dict[str, Any]]:
        groups = (await asyncio.to_thread(self._server.api, "rules", {}))["groups"]
        return [rule for group in groups for rule in group["rules"]]

    async def targets(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = (await asyncio.to_thread(self._server.api, "targets", {}))["activeTargets"]
        return found


async def lose_history(stage: Stage, roles: Roles, stream: str) -> None:
    """As when the oplog has moved on while no watcher was there."""
    await roles.stop("watcher")
    lost = {"$set": {"resume_token": {"_data": "82"}, "token_time": None}}
    assert (await stage.store.database["streams"].update_one({"_id": stream}, lost)).matched_count == 1
    await roles.start("watcher")


async def test_alerts_reach_the_alertmanager_and_end_after_the_repair(stage: Stage, tmp_path: Path) -> None:
    shop, targets = f"shop_{stage.settings.database}", tmp_path / "targets.json"
    change = {"name": "paid", "type": "db", "database": shop, "collection": "orders", "apps": ["acme"]}
    stage.package("Orders", {**relay("Orders", ["A"]), "triggers": {"triggers": [change]}})
    limit = checked_budget(app_id="acme", window="day", unit="tokens", limit=10)
    await Budgets(stage.store.database).set(limit, by="test")
    with alertmanager(tmp_path, OPS / "alertmanager" / "alertmanager.yml") as told:
        async with all_roles(stage) as roles:
            write_targets(targets, roles.at)
            config = following(targets, rules=impatient_rules(tmp_path / "rules"), told=told)
            with prometheus(tmp_path, config) as server:
                watch = Watch(server, told)
                await until("all roles are scraped", watch.scraped)
                await until("every rule is evaluated", watch.evaluated)
                await until("nothing is wrong", lambda: watch.none_of(*TROUBLE))
                await assert_prometheus_is_well(watch)

                await stage.ended((await stage.accept("Orders")).run_id)  # twelve tokens of ten
                await roles.stop("worker")
                await lose_history(stage, roles, shop)
                write_targets(targets, roles.at)

                await until("all of it is told", lambda: watch.all_of(*TROUBLE))
                assert (await watch.told())["UnattendedNoWorker"] == "suppressed"  # that no worker answers says it all
                await StreamControl(stage.store.database).resume(shop, NOW, by="test")
                await roles.start("worker")
                write_targets(targets, roles.at)

                mended = TROUBLE - {"UnattendedBudgetSpent"}
                await until("what is mended has ended", lambda: watch.none_of(*mended))
                assert await watch.all_of("UnattendedBudgetSpent")
                await until("all roles are scraped again", watch.scraped)
    await stage.store.database.client.drop_database(shop)


async def assert_prometheus_is_well(watch: Watch) -> None:
    scrapes = {each["labels"]["role"]: (each["health"], each["lastError"]) for each in await watch.targets()}
    rules = await watch.rules()

    assert scrapes == dict.fromkeys(ROLES, ("up", ""))
    assert {rule["name"] for rule in rules} > TROUBLE
    assert {rule["name"]: rule["lastError"] for rule in rules if rule["health"] != "ok"} == {}
