"""Senders of webhooks: for each scheme a trigger that takes it, and calls as that sender signs them.

Written from the senders' own descriptions, not with the code under test."""

import base64
import hashlib
import hmac
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from standardwebhooks import Webhook

WORKFLOW = "Calls"
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
PRIVATE_KEY = Ed25519PrivateKey.from_private_bytes(b"a private key of thirty-two byte")
PUBLIC_KEY = "whpk_" + base64.b64encode(PRIVATE_KEY.public_key().public_bytes_raw()).decode()
ENVIRON = {"SECRET": SECRET, "PUBLIC_KEY": PUBLIC_KEY}

Sign = Callable[[bytes, str, int], dict[str, str]]


@dataclass(frozen=True)
class Sender:
    """`sign` gives the headers for a body, a delivery id and a time. `names`: where the delivery id is."""

    name: str
    verify: Mapping[str, Any]
    sign: Sign
    names: str | None  # "header", or the key of the body
    timed: bool = True
    extra_fields: Mapping[str, Any] = field(default_factory=dict)

    @property
    def path(self) -> str:
        return f"/hooks/acme/{WORKFLOW}/{self.name}"

    def trigger(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "type": "webhook",
            "apps": ["acme", "globex"],
            "verify": dict(self.verify),
            **self.extra_fields,
        }

    def call(self, body: Mapping[str, Any] | None = None, *, delivery: str = "d-1", age_s: int = 0) -> dict[str, Any]:
        """Keyword arguments for a POST of exactly the signed bytes."""
        named = {self.names: delivery} if self.names not in (None, "header") else {}
        content = json.dumps({"n": 1, **named, **(body or {})}).encode()
        headers = {"content-type": "application/json", **self.sign(content, delivery, int(time.time()) - age_s)}
        return {"content": content, "headers": headers}


def _hex(signed: bytes) -> str:
    return hmac.new(SECRET.encode(), signed, hashlib.sha256).hexdigest()


def _standard(body: bytes, delivery: str, at: int) -> dict[str, str]:
    signature = Webhook(SECRET).sign(msg_id=delivery, timestamp=datetime.fromtimestamp(at, UTC), data=body.decode())
    return {"webhook-id": delivery, "webhook-timestamp": str(at), "webhook-signature": signature}


def _by_key(body: bytes, delivery: str, at: int) -> dict[str, str]:
    signature = base64.b64encode(PRIVATE_KEY.sign(f"{delivery}.{at}.".encode() + body)).decode()
    return {"webhook-id": delivery, "webhook-timestamp": str(at), "webhook-signature": f"v1a,{signature}"}


def _svix(body: bytes, delivery: str, at: int) -> dict[str, str]:
    return {name.replace("webhook", "svix"): value for name, value in _standard(body, delivery, at).items()}


def _github(body: bytes, delivery: str, _at: int) -> dict[str, str]:
    return {"x-hub-signature-256": f"sha256={_hex(body)}", "x-github-delivery": delivery}


def _stripe(body: bytes, _delivery: str, at: int) -> dict[str, str]:
    return {"stripe-signature": f"t={at},v1={_hex(f'{at}.'.encode() + body)},v0=00"}


def _slack(body: bytes, _delivery: str, at: int) -> dict[str, str]:
    signature = _hex(f"v0:{at}:".encode() + body)
    return {"x-slack-request-timestamp": str(at), "x-slack-signature": f"v0={signature}"}


def _by_description(body: bytes, delivery: str, at: int) -> dict[str, str]:
    digest = hmac.new(SECRET.encode(), f"{delivery}|{at}|".encode() + body, hashlib.sha512).digest()
    signature = "s=" + base64.b64encode(digest).decode()
    return {"x-our-id": delivery, "x-our-time": str(at), "x-our-signature": f"s=AAAA,{signature}"}


def _bearer(_body: bytes, _delivery: str, _at: int) -> dict[str, str]:
    return {"authorization": f"Bearer {SECRET}"}


def _gitlab(_body: bytes, _delivery: str, _at: int) -> dict[str, str]:
    return {"x-gitlab-token": SECRET}


def _basic(_body: bytes, _delivery: str, _at: int) -> dict[str, str]:
    return {"authorization": "Basic " + base64.b64encode(f"ada:{SECRET}".encode()).decode()}


def _verify(scheme: str, **fields: Any) -> dict[str, Any]:
    return {"scheme": scheme, "secret": "env:SECRET", **fields}


_DESCRIPTION = {
    "header": "X-Our-Signature",
    "algorithm": "sha512",
    "encoding": "base64",
    "prefix": "s=",
    "timestamp_header": "X-Our-Time",
    "id_header": "X-Our-Id",
    "signed": "{id}|{timestamp}|{body}",
}
SENDERS = (
    Sender("standard", _verify("standard"), _standard, "header"),
    Sender("by-key", _verify("standard") | {"secret": "env:PUBLIC_KEY"}, _by_key, "header"),
    Sender("svix", _verify("svix"), _svix, "header"),
    Sender("github", _verify("github"), _github, "header", timed=False),
    Sender("stripe", _verify("stripe"), _stripe, "id"),
    Sender("slack", _verify("slack"), _slack, "event_id"),
    Sender("described", _verify("hmac", **_DESCRIPTION), _by_description, "header"),
    Sender("bearer", _verify("bearer"), _bearer, "id", timed=False, extra_fields={"dedupe": "=id"}),
    Sender(
        "gitlab", _verify("bearer", header="X-Gitlab-Token"), _gitlab, "id", timed=False, extra_fields={"dedupe": "=id"}
    ),
    Sender("basic", _verify("basic", username="ada"), _basic, "id", timed=False, extra_fields={"dedupe": "=id"}),
)
BY_NAME = {sender.name: sender for sender in SENDERS}
EVENTS = {
    "name": "events",
    "type": "webhook",
    "apps": ["acme"],
    "verify": _verify("github"),
    "accept": ["json", "form", "text"],
    "input": {"order": "=data.order || order", "text": "=text", "all": "=data"},
}
OPEN = {"name": "open", "type": "webhook", "apps": ["acme"], "verify": {"scheme": "none"}}
WIDE_OPEN = {
    "name": "wide-open",
    "type": "webhook",
    "apps": ["acme"],
    "verify": {"scheme": "none", "even_in_production": True},
}
LIMITED = {
    "name": "limited",
    "type": "webhook",
    "apps": ["acme", "globex"],
    "verify": _verify("github"),
    "when": "n != `0`",
    "rate": "3/h",
}
PICKY = {"name": "picky", "type": "webhook", "apps": ["acme"], "verify": _verify("github"), "when": "n > `1`"}
TRIGGERS = {"triggers": [*(sender.trigger() for sender in SENDERS), EVENTS, OPEN, WIDE_OPEN, LIMITED, PICKY]}
