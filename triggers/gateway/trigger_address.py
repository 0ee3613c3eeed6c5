"""Trigger requests: the address of a webhook or form call, and its event."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from starlette.requests import Request

from triggers.event_expressions import resolve_text
from triggers.gateway.http_problems import ProblemError
from workflows.context.expressions.bounded_expression import StepBudget
from workflows.package.trigger_specs.base_spec import is_expression
from workflows.package.trigger_specs.form_spec import FormSpec
from workflows.package.trigger_specs.webhook_spec import WebhookSpec

# Credentials never reach a run's input, whatever its mapping selects.
_SECRET_WORDS = (
    "authorization",
    "cookie",
    "signature",
    "token",
    "secret",
    "password",
    "credential",
    "api-key",
    "apikey",
)


@dataclass(frozen=True, slots=True)
class TriggerAddress:
    app: str
    workflow: str
    trigger: str

    @classmethod
    def from_request(cls, request: Request) -> "TriggerAddress":
        parts = request.path_params
        return cls(parts["app"], parts["workflow"], parts["trigger"])

    @property
    def path(self) -> str:
        return "/".join(quote(part, safe="") for part in (self.app, self.workflow, self.trigger))


def trigger_not_found() -> ProblemError:
    """Uses one text for all unknown names, so that callers learn none."""
    return ProblemError(404, "there is no such trigger")


def check_app(
    spec: WebhookSpec | FormSpec, address: TriggerAddress, event: Any, budget: StepBudget | None = None
) -> None:
    """Requires that `app_id: =expr` names the app in the address.

    A body could start another app's run otherwise.
    """
    if is_expression(spec.app_id) and resolve_text(spec.app_id, event, budget) != address.app:
        raise trigger_not_found()


def decode_headers(request: Request) -> dict[str, str]:
    """Returns headers by lower-case name; of a repeated header the first value.

    Starlette's own lookup scans all headers each time.
    """
    return {name.decode("latin-1"): value.decode("latin-1") for name, value in reversed(request.scope["headers"])}


def build_event(
    body: Any, request: Request, *, headers: Mapping[str, str] | None = None, secret_header: str | None = None
) -> Any:
    """Adds `_request` to a JSON object; any other value stays as it is."""
    if not isinstance(body, dict):
        return body
    all_headers = decode_headers(request) if headers is None else headers
    visible = {name: value for name, value in all_headers.items() if _is_visible(name, secret_header)}
    query = dict(request.query_params) if request.scope["query_string"] else {}
    return {**body, "_request": {"headers": visible, "query": query}}


def _is_visible(header: str, secret_header: str | None) -> bool:
    if header == secret_header:
        return False
    for word in _SECRET_WORDS:  # noqa: SIM110 -- a generator per header costs more than the lookups
        if word in header:
            return False
    return True
