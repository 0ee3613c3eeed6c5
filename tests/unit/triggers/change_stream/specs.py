"""Watches for the unit tests of change streams."""

from typing import Any

from triggers.change_stream.watched_triggers import ChangeTrigger, make_change_trigger
from triggers.register.trigger import Trigger
from workflows.package.trigger_specs.change_spec import ChangeSpec


def spec(**changes: Any) -> ChangeSpec:
    given = {"name": "paid", "database": "shop", "collection": "orders", "apps": ("acme",), **changes}
    return ChangeSpec.model_validate(given)


def trigger(*, made_for: str | None = None, **changes: Any) -> Trigger:
    return Trigger("Orders", spec(**changes), app_id=made_for)


def watch_of(**changes: Any) -> ChangeTrigger:
    return make_change_trigger(trigger(**changes))
