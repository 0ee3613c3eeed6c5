"""Scheme `stripe`: Stripe-Signature, a timestamp and one signature per secret.

The event's `id` is the delivery id.
"""

import hashlib
import hmac
from collections.abc import Mapping, Sequence
from datetime import datetime

from triggers.webhook.schemes.signature_parts import SignatureError, any_equal, check_time, required_header, text_keys
from workflows.package.trigger_specs.webhook_spec import Verification

MAX_PARTS = 20


def verify(
    headers: Mapping[str, str], raw_body: bytes, *, secrets: Sequence[str], options: Verification, now: datetime
) -> None:
    parts = [part.strip().partition("=") for part in required_header(headers, "stripe-signature").split(",")]
    timestamps = [value for name, _, value in parts if name == "t"]
    # Other schemes in the header are older or for tests; accepting one would allow a downgrade.
    signatures = [value.encode() for name, _, value in parts if name == "v1"]
    if len(parts) > MAX_PARTS or len(timestamps) != 1 or not signatures:
        raise SignatureError("malformed_header")
    check_time(timestamps[0], now, options.tolerance)
    expected = [sign(key, timestamps[0], raw_body).encode() for key in text_keys(secrets)]
    if not any_equal(expected, signatures):
        raise SignatureError("no_match")


def sign(key: bytes, timestamp: str, raw_body: bytes) -> str:
    """Returns the hexadecimal part of a `v1=` signature.

    The key is the whole secret, with `whsec_`.
    """
    return hmac.digest(key, f"{timestamp}.".encode() + raw_body, hashlib.sha256).hex()
