"""Places: the app, workflow and trigger that an address names."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from starlette.requests import Request

from triggers.event_expressions import resolve_text
from triggers.gateway.http_problems import ProblemError
from workflows.context.expressions.bounded_expression import StepBudget
from workflows.package.trigger_specs.base_trigger import is_expression
from workflows.package.trigger_specs.form_spec import FormSpec
from workflows.package.trigger_specs.webhook_spec import WebhookSpec

# Credentials have no business in a run's input, not even by mistake.
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
        given = request.path_params
        return cls(given["app"], given["workflow"], given["trigger"])

    @property
    def path(self) -> str:
        return "/".join(quote(part, safe="") for part in (self.app, self.workflow, self.trigger))


def trigger_not_found() -> ProblemError:
    """One text for an unknown app, workflow or trigger: a stranger learns no names from the difference."""
    return ProblemError(404, "there is no such trigger")


def check_app(
    spec: WebhookSpec | FormSpec, address: TriggerAddress, event: Any, effort: StepBudget | None = None
) -> None:
    """`app_id: =expr` must name the app in the address; otherwise a body could start another app's run."""
    if is_expression(spec.app_id) and resolve_text(spec.app_id, event, effort) != address.app:
        raise trigger_not_found()


def decode_headers(request: Request) -> dict[str, str]:
    """Names in lower case; of a header that is given twice the first, as everywhere here. Starlette's own look at one
    goes through all of them."""
    return {name.decode("latin-1"): value.decode("latin-1") for name, value in reversed(request.scope["headers"])}


def build_event(
    body: Any, request: Request, *, headers: Mapping[str, str] | None = None, secret_header: str | None = None
) -> Any:
    """An object with `_request` beside its own keys; any other JSON value as it is."""
    if not isinstance(body, dict):
        return body
    given = decode_headers(request) if headers is None else headers
    shown = {name: value for name, value in given.items() if _is_visible(name, secret_header)}
    query = dict(request.query_params) if request.scope["query_string"] else {}
    return {**body, "_request": {"headers": shown, "query": query}}


def _is_visible(header: str, secret_header: str | None) -> bool:
    if header == secret_header:
        return False
    for word in _SECRET_WORDS:  # noqa: SIM110 -- a generator for each header of each call costs more than the looks
        if word in header:
            return False
    return True
