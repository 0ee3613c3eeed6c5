"""The bench of trigger control tests: a package with one trigger of each kind, and a real store."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.integration.stage import relay, write_package
from triggers.control.runtime_triggers import create_trigger
from triggers.control.trigger_entry import TriggerEntry
from triggers.control.trigger_lists import TriggerFilter, iter_triggers
from triggers.role_context import RoleContext, open_role_context
from workers.settings import Settings

TRIGGERS: list[dict[str, Any]] = [
    {"name": "nightly", "type": "schedule", "cron": "30 2 * * *", "apps": ["acme", "globex"]},
    {
        "name": "hook",
        "type": "webhook",
        "apps": ["acme", "globex"],
        "verify": {"scheme": "github", "secret": "env:HOOK_SECRET"},
        "input": {"number": "=number", "total": "=sum(prices)"},
    },
    {
        "name": "locked",
        "type": "webhook",
        "apps": ["acme"],
        "verify": {"scheme": "github", "secret": "env:SECRET_THAT_IS_NOT_THERE"},
    },
    {"name": "paid", "type": "database_condition", "database": "shop", "app_id": "=fullDocument.app_id"},
    {"name": "lead", "type": "form_submit", "apps": ["acme"], "inputs": {"email": {"format": "email"}}},
    {"name": "after", "type": "run_finished", "workflow": "Digest"},
]
BY_COLLECTION: dict[str, Any] = {"name": "each", "type": "schedule", "every": "1h", "apps": {"collection": "Apps"}}
EVERY_HOUR: dict[str, Any] = {"name": "hourly", "type": "schedule", "every": "1h"}
FORM: dict[str, Any] = {"name": "ask", "type": "form_submit", "inputs": {"question": {"required": True}}}


def with_digest(settings: Settings, folder: Path) -> Settings:
    packages = folder / "packages"
    write_package(packages, "Digest", {**relay("Digest", ["A"]), "triggers": {"triggers": TRIGGERS}})
    write_package(packages, "Sales", relay("Sales", ["A"]))
    write_package(packages, "Many", {**relay("Many", ["A"]), "triggers": {"triggers": [BY_COLLECTION]}})
    return replace(settings, packages=(packages,), environ={**settings.environ, "HOOK_SECRET": "s3cret"})


@asynccontextmanager
async def control_context(settings: Settings, folder: Path) -> AsyncIterator[RoleContext]:
    async with open_role_context(with_digest(settings, folder)) as ground:
        yield ground


async def create_test_trigger(
    ground: RoleContext, app_id: str, spec: dict[str, Any] = FORM, *, workflow: str = "Sales"
) -> TriggerEntry:
    return await create_trigger(ground, workflow, app_id, spec, by="test")


async def ids(ground: RoleContext, filter_: TriggerFilter | None = None, **options: Any) -> list[str]:
    return [row["trigger_id"] async for row in iter_triggers(ground, filter_ or TriggerFilter(), **options)]


async def runs(ground: RoleContext) -> list[dict[str, Any]]:
    return list(await ground.store.list())
