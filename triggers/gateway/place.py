"""Places: the app, workflow and trigger that an address names."""

from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from starlette.requests import Request

from triggers.gateway.problems import ProblemError
from triggers.payload import resolve_text
from workflows.context.bounded_expression import StepBudget
from workflows.package.trigger_specs.form import FormSpec
from workflows.package.trigger_specs.trigger import is_expression
from workflows.package.trigger_specs.webhook import WebhookSpec


@dataclass(frozen=True, slots=True)
class TriggerAddress:
    app: str
    workflow: str
    trigger: str

    @classmethod
    def from_request(cls, request: Request) -> "TriggerAddress":
        given = request.path_params
        return cls(given["app"], given["workflow"], given["trigger"])

    @property
    def path(self) -> str:
        return "/".join(quote(part, safe="") for part in (self.app, self.workflow, self.trigger))


def trigger_not_found() -> ProblemError:
    """One text for an unknown app, workflow or trigger: a stranger learns no names from the difference."""
    return ProblemError(404, "there is no such trigger")


def check_app(spec: WebhookSpec | FormSpec, address: TriggerAddress, event: Any, effort: StepBudget | None = None) -> None:
    """`app_id: =expr` must name the app in the address; otherwise a body could start another app's run."""
    if is_expression(spec.app_id) and resolve_text(spec.app_id, event, effort) != address.app:
        raise trigger_not_found()
