"""A trigger: a spec, the workflow it starts, and its origin.

Its identity is (app, workflow, name). A package's trigger belongs to each app it names. A trigger created at run time,
by API or command, belongs to one app. A package's trigger goes before one of the same name created at run time.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Literal
from urllib.parse import quote

from workflows.package.normal_form.package_model import Package
from workflows.package.trigger_specs.base_spec import is_expression
from workflows.package.trigger_specs.run_finished_spec import RunFinishedSpec
from workflows.package.trigger_specs.schedule_spec import AppsOfCollection
from workflows.package.trigger_specs.trigger_spec import TriggerSpec

Origin = Literal["package", "api"]
ANY_APP = "{app}"


@dataclass(frozen=True)
class Trigger:
    """A trigger. Its names are read with each event, and built once."""

    workflow: str
    spec: TriggerSpec
    app_id: str | None = None  # of one created at run time
    revision: int = 0  # grows with each edit at run time

    @cached_property
    def id(self) -> str:
        return trigger_id(self.workflow, self.spec.name, app_id=self.app_id)

    @cached_property
    def label(self) -> str:
        """Names it in metrics and dedupe keys, without the app."""
        return f"{self.workflow}/{self.spec.name}"

    @property
    def origin(self) -> Origin:
        return "package" if self.app_id is None else "api"

    @property
    def apps(self) -> tuple[str, ...]:
        """The apps that are known without an event and a database."""
        return self.spec.listed_apps if self.app_id is None else (self.app_id,)


def trigger_id(workflow: str, name: str, *, app_id: str | None = None) -> str:
    """Builds a unique id: names have no `@` and `/`, and the app is quoted."""
    suffix = "" if app_id is None else f"@{quote(app_id, safe='')}"
    return f"{workflow}/{name}{suffix}"


def call_paths(trigger: Trigger, prefix: str) -> Mapping[str, str]:
    """Maps each app to the path of its webhook or form.

    `{app}` stands for any app that the event names.
    """
    apps = {app_id: quote(app_id, safe="") for app_id in trigger.apps}
    if not apps and is_expression(trigger.spec.app_id):
        apps = {ANY_APP: ANY_APP}
    name = f"{quote(trigger.workflow, safe='')}/{quote(trigger.spec.name, safe='')}"
    return {app_id: f"{prefix}/{quoted_app}/{name}" for app_id, quoted_app in apps.items()}


def declared_triggers(packages: Mapping[str, Package]) -> Iterator[Trigger]:
    for workflow, package in packages.items():
        for spec in package.triggers:
            yield Trigger(workflow, spec)


def shadowing_spec(packages: Mapping[str, Package], workflow: str, name: str, app_id: str) -> TriggerSpec | None:
    """Returns the package's trigger of this name and app, of any kind.

    It goes before one created at run time.
    """
    package = packages.get(workflow)
    specs = () if package is None else package.triggers
    return next((spec for spec in specs if spec.name == name and is_for_app(spec, app_id)), None)


def is_for_app(spec: TriggerSpec, app_id: str) -> bool:
    """A trigger without apps serves none.

    The app of an expression is known only with the event.
    """
    return app_id in spec.listed_apps or deferred_apps_source(spec) is not None


def deferred_apps_source(spec: TriggerSpec) -> str | None:
    """Returns where a trigger finds its apps when it fires, if not in its spec."""
    if isinstance(spec.apps, AppsOfCollection):
        return "collection"
    if is_expression(spec.app_id):
        return "event"
    return "ended run" if isinstance(spec, RunFinishedSpec) and not spec.listed_apps else None
