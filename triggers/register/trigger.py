"""A trigger: a spec, the workflow it starts, and where it comes from.

Its identity is (app, workflow, name). A package's trigger is that of each app it names; one that was made at run
time, by API or command, is of one app, and its runs are too.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Literal
from urllib.parse import quote

from workflows.package.normal_form.package_model import Package
from workflows.package.trigger_specs.base_trigger import is_expression
from workflows.package.trigger_specs.run_finished_spec import RunFinishedSpec
from workflows.package.trigger_specs.schedule_spec import AppsOfCollection
from workflows.package.trigger_specs.trigger_spec import TriggerSpec

Origin = Literal["package", "api"]


@dataclass(frozen=True)
class Trigger:
    """Its names are asked for with every event, and put together once."""

    workflow: str
    spec: TriggerSpec
    app_id: str | None = None  # of one that was made at run time
    revision: int = 0  # grows with each edit at run time

    @cached_property
    def id(self) -> str:
        return trigger_id(self.workflow, self.spec.name, app_id=self.app_id)

    @cached_property
    def label(self) -> str:
        """In metrics and dedupe keys: without the app, of which there may be many."""
        return f"{self.workflow}/{self.spec.name}"

    @property
    def origin(self) -> Origin:
        return "package" if self.app_id is None else "api"

    @property
    def apps(self) -> tuple[str, ...]:
        """Those known without an event and without a database."""
        return self.spec.listed_apps if self.app_id is None else (self.app_id,)


def trigger_id(workflow: str, name: str, *, app_id: str | None = None) -> str:
    """`@` and `/` are in no name of a workflow or trigger, and the app is quoted: no two triggers share an id."""
    made_for = "" if app_id is None else f"@{quote(app_id, safe='')}"
    return f"{workflow}/{name}{made_for}"


def declared_triggers(packages: Mapping[str, Package]) -> Iterator[Trigger]:
    for workflow, package in packages.items():
        for spec in package.triggers:
            yield Trigger(workflow, spec)


def shadowing_spec(packages: Mapping[str, Package], workflow: str, name: str, app_id: str) -> TriggerSpec | None:
    """The package's trigger of this name that may start runs of this app, of whatever kind it is."""
    package = packages.get(workflow)
    specs = () if package is None else package.triggers
    return next((spec for spec in specs if spec.name == name and is_for_app(spec, app_id)), None)


def is_for_app(spec: TriggerSpec, app_id: str) -> bool:
    """A trigger that names no app serves none. What an expression names is known with the event."""
    return app_id in spec.listed_apps or deferred_apps_source(spec) is not None


def deferred_apps_source(spec: TriggerSpec) -> str | None:
    """Where its apps are found once it fires; None when they are known before."""
    if isinstance(spec.apps, AppsOfCollection):
        return "collection"
    if is_expression(spec.app_id):
        return "event"
    return "ended run" if isinstance(spec, RunFinishedSpec) and not spec.listed_apps else None
