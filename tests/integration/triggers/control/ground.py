"""A ground for tests of what people do with triggers: a package with one of each kind, and the real store."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.integration.stage import relay, write_package
from triggers.control.known import Known
from triggers.control.listing import Wanted, each_trigger
from triggers.control.making import make
from triggers.role import TriggerGround, trigger_ground
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
async def controlled(settings: Settings, folder: Path) -> AsyncIterator[TriggerGround]:
    async with trigger_ground(with_digest(settings, folder)) as ground:
        yield ground


async def made(ground: TriggerGround, app_id: str, spec: dict[str, Any] = FORM, *, workflow: str = "Sales") -> Known:
    return await make(ground, workflow, app_id, spec, by="test")


async def ids(ground: TriggerGround, wanted: Wanted | None = None, **more: Any) -> list[str]:
    return [row["trigger_id"] async for row in each_trigger(ground, wanted or Wanted(), **more)]


async def runs(ground: TriggerGround) -> list[dict[str, Any]]:
    return list(await ground.store.list())
