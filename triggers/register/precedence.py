"""Precedence: a package's trigger goes before one of the same name that was made at run time for one of its apps."""

from collections.abc import Mapping

from workflows.package.normal_form.package_model import Package
from workflows.package.trigger_specs.base_trigger import is_expression
from workflows.package.trigger_specs.run_finished_spec import RunFinishedSpec
from workflows.package.trigger_specs.schedule_spec import AppsOfCollection
from workflows.package.trigger_specs.trigger_spec import TriggerSpec


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
