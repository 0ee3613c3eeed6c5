"""Scheme `stripe`: Stripe-Signature with its timestamp and one signature for each secret in use; the event's own `id`
names the delivery."""

import hashlib
import hmac
from collections.abc import Mapping, Sequence
from datetime import datetime

from triggers.webhook.schemes.signature_check import SignatureError, any_equal, check_time, required_header, text_keys
from workflows.package.trigger_specs.webhook_spec import Verification

MAX_PARTS = 20


def verify(
    headers: Mapping[str, str], raw_body: bytes, *, secrets: Sequence[str], options: Verification, now: datetime
) -> None:
    parts = [part.strip().partition("=") for part in required_header(headers, "stripe-signature").split(",")]
    timestamps = [value for name, _, value in parts if name == "t"]
    # Other schemes in the list are older or for tests: taking one of those would let it be downgraded.
    given = [value.encode() for name, _, value in parts if name == "v1"]
    if len(parts) > MAX_PARTS or len(timestamps) != 1 or not given:
        raise SignatureError("malformed_header")
    check_time(timestamps[0], now, options.tolerance)
    expected = [sign(key, timestamps[0], raw_body).encode() for key in text_keys(secrets)]
    if not any_equal(expected, given):
        raise SignatureError("no_match")


def sign(key: bytes, timestamp: str, raw_body: bytes) -> str:
    """The hexadecimal part of a `v1=` signature. The key is the secret's whole text, `whsec_` included."""
    return hmac.digest(key, f"{timestamp}.".encode() + raw_body, hashlib.sha256).hex()
