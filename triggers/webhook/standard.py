"""Scheme `standard`: Standard Webhooks 1.0, symmetric signatures (v1)."""

import base64
import binascii
import hashlib
import hmac
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from triggers.webhook.signature import SignatureError, any_equal, required_header

SECRET_PREFIX = "whsec_"  # noqa: S105 -- the published prefix, not a secret
_VERSION = "v1,"


def verify(
    headers: Mapping[str, str], raw_body: bytes, *, secrets: Sequence[str], now: datetime, tolerance: timedelta
) -> str:
    delivery_id = required_header(headers, "webhook-id")
    timestamp = required_header(headers, "webhook-timestamp")
    # A list, so that a sender can sign with its old and its new secret; other versions are not ours to judge.
    parts = required_header(headers, "webhook-signature").split(" ")
    given = [part.removeprefix(_VERSION).encode() for part in parts if part.startswith(_VERSION)]
    _check_time(timestamp, now, tolerance)
    keys = [key for secret in secrets if (key := decode_secret(secret)) is not None]
    if not keys:
        raise SignatureError("unusable_secret")
    if not any([any_equal(sign(key, delivery_id, timestamp, raw_body).encode(), given) for key in keys]):  # noqa: C419 -- a list: every key is tried, so that timing tells nothing
        raise SignatureError("no_match")
    return delivery_id


def sign(key: bytes, delivery_id: str, timestamp: str, raw_body: bytes) -> str:
    """The base64 part of a `v1,` signature."""
    signed = f"{delivery_id}.{timestamp}.".encode() + raw_body
    return base64.b64encode(hmac.digest(key, signed, hashlib.sha256)).decode("ascii")


def decode_secret(secret: str) -> bytes | None:
    """None for what is not base64, and for an empty key, with which anybody could sign."""
    encoded = secret.strip().removeprefix(SECRET_PREFIX).rstrip("=")
    try:
        return base64.b64decode(encoded + "=" * (-len(encoded) % 4), validate=True) or None
    except (binascii.Error, ValueError):
        return None


def _check_time(timestamp: str, now: datetime, tolerance: timedelta) -> None:
    """Both ways: a timestamp from the future would stretch the window in which a call can be replayed."""
    if not (timestamp.isdigit() and len(timestamp) <= 15):
        raise SignatureError("malformed_header")
    if abs(now.timestamp() - int(timestamp)) > tolerance.total_seconds():
        raise SignatureError("outside_tolerance")
