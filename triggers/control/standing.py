"""How a trigger stands: active, paused by somebody, or inactive and why."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Literal

from triggers.control.known import Known
from triggers.kinds import KINDS
from triggers.register.precedence import in_front_of
from triggers.webhook.secrets import secret_problems, unverified_problem
from workers.settings import Settings
from workflows.package.models import Package
from workflows.package.trigger_specs.webhook import WebhookSpec

State = Literal["active", "paused", "inactive"]
STATES: tuple[State, ...] = ("active", "paused", "inactive")

_UNREADABLE = "it was written by another version of Unattended, and this one cannot read it"


@dataclass(frozen=True, slots=True)
class Standing:
    """`inactive` says why nothing can start it, also of one that is paused. `inactive_here`: that is found in the
    environment of whoever looks, and may be another one for the role that serves it."""

    state: State
    inactive: str | None
    inactive_here: bool = False


def standing_of(
    known: Known, settings: Settings, packages: Mapping[str, Package], *, app_id: str | None = None
) -> Standing:
    """For this app, or as a whole."""
    inactive = _inactive(known, settings, packages)
    here = inactive is not None and inactive in _problems_here(known, settings)
    if known.pause_of(app_id) is not None:
        return Standing("paused", inactive, here)
    return Standing("active" if inactive is None else "inactive", inactive, here)


def _inactive(known: Known, settings: Settings, packages: Mapping[str, Package]) -> str | None:
    if known.trigger is None:
        return _UNREADABLE
    if known.app_id is not None:
        if known.workflow not in packages:
            return f"the workflow {known.workflow} is not started; `unattended packages list` shows why"
        if in_front_of(packages, known.workflow, known.name, known.app_id) is not None:
            return f"the package {known.workflow} now has a trigger of this name, which goes first; remove this one"
    return KINDS[known.type].inactive(known.trigger, settings)


def _problems_here(known: Known, settings: Settings) -> Collection[str | None]:
    spec = None if known.trigger is None else known.trigger.spec
    if not isinstance(spec, WebhookSpec):
        return ()
    return [unverified_problem(spec.verify, settings), *secret_problems(spec.verify, settings).values()]
