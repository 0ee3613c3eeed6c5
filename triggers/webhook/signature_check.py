"""The signature check: a call is verified by the scheme that its trigger names in `verify.scheme`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from triggers.webhook.schemes import generic_hmac, github, shared_secrets, slack, standard_webhooks, stripe
from triggers.webhook.schemes.signature_parts import Verify
from workflows.package.trigger_specs.webhook_spec import Verification


@dataclass(frozen=True, slots=True)
class SchemeRules:
    verify: Verify
    id_in_body: str | None = None  # the body's key with the delivery id, where no header has it
    www_authenticate: str | None = None  # the header of a 401: some senders send credentials only after it


SCHEMES: Mapping[str, SchemeRules] = {
    "standard": SchemeRules(standard_webhooks.verify),
    "svix": SchemeRules(standard_webhooks.verify_svix),
    "github": SchemeRules(github.verify),
    "stripe": SchemeRules(stripe.verify, id_in_body="id"),
    "slack": SchemeRules(slack.verify, id_in_body="event_id"),
    "hmac": SchemeRules(generic_hmac.verify),
    "bearer": SchemeRules(shared_secrets.verify_bearer, www_authenticate="Bearer"),
    "basic": SchemeRules(shared_secrets.verify_basic, www_authenticate='Basic realm="webhook"'),
    "none": SchemeRules(shared_secrets.verify_nothing),
}


def check_signature(
    headers: Mapping[str, str], raw_body: bytes, *, secrets: Sequence[str], options: Verification, now: datetime
) -> str | None:
    """Returns the delivery id, if a header has one. Raises SignatureError."""
    return SCHEMES[options.scheme].verify(headers, raw_body, secrets=secrets, options=options, now=now)
