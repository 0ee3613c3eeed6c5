"""Places: the app, workflow and trigger that an address names, and whether that app may call that trigger."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import quote

from starlette.requests import Request

from triggers.gateway.problems import ProblemError
from triggers.payload import resolve_text
from workflows.package.models import Package
from workflows.package.trigger_specs.form import FormSpec
from workflows.package.trigger_specs.webhook import WebhookSpec

Spec = TypeVar("Spec", WebhookSpec, FormSpec)


@dataclass(frozen=True, slots=True)
class Place:
    app: str
    workflow: str
    trigger: str

    @classmethod
    def of(cls, request: Request) -> "Place":
        return cls(**{name: request.path_params[name] for name in ("app", "workflow", "trigger")})

    @property
    def path(self) -> str:
        return "/".join(quote(part, safe="") for part in (self.app, self.workflow, self.trigger))


def not_found() -> ProblemError:
    """One text for an unknown app, workflow or trigger: a stranger learns no names from the difference."""
    return ProblemError(404, "there is no such trigger")


def find_trigger(packages: Mapping[str, Package], place: Place, kind: type[Spec]) -> Spec:
    package = packages.get(place.workflow)
    for spec in package.triggers if package is not None else ():
        if isinstance(spec, kind) and spec.name == place.trigger and _may_call(spec, place.app):
            return spec
    raise not_found()


def _may_call(spec: WebhookSpec | FormSpec, app: str) -> bool:
    """A trigger that names no app accepts none. What an expression names is known with the event."""
    return app in spec.apps or _is_expression(spec.app_id) or (spec.app_id is not None and app == str(spec.app_id))


def _is_expression(mapped: Any) -> bool:
    return isinstance(mapped, str) and mapped.startswith("=")


def check_app(spec: WebhookSpec | FormSpec, place: Place, event: Any) -> None:
    """`app_id: =expr` must name the app in the address; otherwise a body could start another app's run."""
    if _is_expression(spec.app_id) and resolve_text(spec.app_id, event) != place.app:
        raise not_found()
