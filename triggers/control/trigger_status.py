"""Trigger status: active, paused, or inactive with the reason."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Literal

from triggers.control.trigger_entry import TriggerEntry
from triggers.kind_registry import KINDS
from triggers.register.trigger import shadowing_spec
from triggers.webhook.webhook_secrets import secret_problems, unverified_problem
from workers.settings import Settings
from workflows.package.normal_form.package_model import Package
from workflows.package.trigger_specs.webhook_spec import WebhookSpec

TriggerStateName = Literal["active", "paused", "inactive"]
TRIGGER_STATES: tuple[TriggerStateName, ...] = ("active", "paused", "inactive")

_UNREADABLE = "it was written by another version of Unattended, and this one cannot read it"


@dataclass(frozen=True, slots=True)
class TriggerStatus:
    """`inactive` is the reason why nothing can start it, also for a paused one.

    `inactive_here`: the reason comes from this process's environment; the role that serves it may have another.
    """

    state: TriggerStateName
    inactive: str | None
    inactive_here: bool = False


def trigger_status(
    entry: TriggerEntry, settings: Settings, packages: Mapping[str, Package], *, app_id: str | None = None
) -> TriggerStatus:
    """Returns the status for this app, or as a whole."""
    inactive = _inactive_reason(entry, settings, packages)
    is_local = inactive is not None and inactive in _local_problems(entry, settings)
    if entry.pause_of(app_id) is not None:
        return TriggerStatus("paused", inactive, is_local)
    return TriggerStatus("active" if inactive is None else "inactive", inactive, is_local)


def _inactive_reason(entry: TriggerEntry, settings: Settings, packages: Mapping[str, Package]) -> str | None:
    if entry.trigger is None:
        return _UNREADABLE
    if entry.app_id is not None:
        if entry.workflow not in packages:
            return f"the workflow {entry.workflow} is not started; `unattended packages list` shows why"
        if shadowing_spec(packages, entry.workflow, entry.name, entry.app_id) is not None:
            return f"the package {entry.workflow} now has a trigger of this name, which goes first; remove this one"
    return KINDS[entry.type].inactive_reason(entry.trigger, settings)


def _local_problems(entry: TriggerEntry, settings: Settings) -> Collection[str | None]:
    spec = None if entry.trigger is None else entry.trigger.spec
    if not isinstance(spec, WebhookSpec):
        return ()
    return [unverified_problem(spec.verify, settings), *secret_problems(spec.verify, settings).values()]
