"""The kind `webhook`: a signed HTTP call."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from pymongo.asynchronous.database import AsyncDatabase
from ulid import ULID

from triggers.occurrence import Occurrence
from triggers.register.trigger import Trigger, call_paths
from triggers.register.trigger_record import TriggerRecord
from triggers.trigger_kind import Role
from triggers.webhook.signature_check import SCHEMES
from triggers.webhook.webhook_secrets import secret_problems, unverified_problem
from workers.settings import Settings
from workflows.package.trigger_specs.trigger_spec import TriggerSpec
from workflows.package.trigger_specs.webhook_spec import Verification, WebhookSpec

_IDS_IN_HEADERS = {
    "standard": "the header webhook-id",
    "svix": "the header svix-id",
    "github": "the header X-GitHub-Delivery",
}


class WebhookKind:
    type = "webhook"
    role: Role = "gateway"

    def inactive_reason(self, trigger: Trigger, settings: Settings) -> str | None:
        spec = _webhook_spec(trigger.spec)
        if not trigger.apps and spec.app_id is None:
            return "no app may call it: write apps: […] or app_id: …"
        problem = unverified_problem(spec.verify, settings)
        if problem is not None or spec.verify.scheme == "none":
            return problem
        problems = secret_problems(spec.verify, settings).values()
        return next((problem for problem in problems if problem is not None), None) if all(problems) else None

    def app_key_refusal(self, spec: TriggerSpec) -> str | None:
        verify = _webhook_spec(spec).verify
        if verify.secret:
            return "verify.secret names a secret of the operator's: only a key for all apps may make such a webhook"
        if verify.even_in_production:
            return "verify.even_in_production lets anybody start runs: only a key for all apps may make such a webhook"
        return None

    def initial_fields(
        self, trigger: Trigger, now: datetime, before: Mapping[str, Any] | None = None
    ) -> Mapping[str, Any]:
        del trigger, now, before
        return {}

    async def describe(
        self,
        trigger: Trigger,
        record: TriggerRecord | None,  # noqa: ARG002 -- the protocol's
        database: AsyncDatabase[dict[str, Any]],  # noqa: ARG002 -- the protocol's
        settings: Settings,
    ) -> Mapping[str, Any]:
        spec = _webhook_spec(trigger.spec)
        problems = secret_problems(spec.verify, settings)
        return {
            "addresses": call_paths(trigger, "/hooks"),
            "scheme": spec.verify.scheme,
            "secrets": [{"secret": name, "problem": problem} for name, problem in problems.items()],
            "body_kinds": list(spec.body_kinds),
            "deduplicated_by": dedupe_source(spec),
            "rate": spec.rate,
        }

    def manual_event(self, trigger: Trigger, app_id: str, event: Mapping[str, Any], now: datetime) -> Occurrence:
        """Builds the event as if it came in a request without headers and query."""
        data = {"_request": {"headers": {}, "query": {}}, **event}
        return Occurrence(trigger, app_id, f"manual:{ULID()}", now, data)


def dedupe_source(spec: WebhookSpec) -> str:
    """Describes the sources of the dedupe id, in the order of the endpoint."""
    from_scheme = _id_of_scheme(spec.verify)
    sources = [from_scheme] if from_scheme is not None else []
    if spec.dedupe is not None:
        sources.append(f"dedupe: {spec.dedupe}")
    return ", else ".join([*sources, "a CloudEvent's source and id"])


def _id_of_scheme(verify: Verification) -> str | None:
    if verify.scheme == "hmac" and verify.id_header is not None:
        return f"the header {verify.id_header}"
    key = SCHEMES[verify.scheme].id_in_body
    return _IDS_IN_HEADERS.get(verify.scheme) if key is None else f"the body's {key}"


def _webhook_spec(spec: TriggerSpec) -> WebhookSpec:
    assert isinstance(spec, WebhookSpec)  # noqa: S101 -- kinds are looked up by the spec's type
    return spec


KIND = WebhookKind()
