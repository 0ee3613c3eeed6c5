"""Scheme `slack`: X-Slack-Signature over timestamp and body.

The event's `event_id` is the delivery id: it stays the same in each retry.
"""

import hashlib
import hmac
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from triggers.webhook.schemes.signature_parts import SignatureError, any_equal, check_time, required_header, text_keys
from workflows.package.trigger_specs.webhook_spec import Verification

_VERSION = "v0"
_MAX_CHALLENGE = 1_000


def verify(
    headers: Mapping[str, str], raw_body: bytes, *, secrets: Sequence[str], options: Verification, now: datetime
) -> None:
    timestamp = required_header(headers, "x-slack-request-timestamp")
    signature = required_header(headers, "x-slack-signature")
    if not signature.startswith(f"{_VERSION}="):
        raise SignatureError("malformed_header")
    check_time(timestamp, now, options.tolerance)
    signatures = [signature.removeprefix(f"{_VERSION}=").encode()]
    if not any_equal([sign(key, timestamp, raw_body).encode() for key in text_keys(secrets)], signatures):
        raise SignatureError("no_match")


def sign(key: bytes, timestamp: str, raw_body: bytes) -> str:
    """Returns the hexadecimal part of the signature."""
    return hmac.digest(key, f"{_VERSION}:{timestamp}:".encode() + raw_body, hashlib.sha256).hex()


def find_challenge(body: Any) -> str | None:
    """Returns the text that Slack expects back at registration, or None."""
    if not isinstance(body, dict) or body.get("type") != "url_verification":
        return None
    challenge = body.get("challenge")
    return challenge[:_MAX_CHALLENGE] if isinstance(challenge, str) else None
