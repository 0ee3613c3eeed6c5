"""Schemes `standard` and `svix`: Standard Webhooks 1.0.

Senders sign with a shared secret (v1) or a private key (v1a).
"""

import base64
import binascii
import hashlib
import hmac
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Literal

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from triggers.webhook.schemes.signature_parts import SignatureError, any_equal, check_time, required_header
from workflows.package.trigger_specs.webhook_spec import Verification

SECRET_PREFIX = "whsec_"  # noqa: S105 -- the published prefix, not a secret
PUBLIC_KEY_PREFIX = "whpk_"
MAX_SIGNATURES = 20  # a sender that rotates gives two; each v1a one costs a verification with each key
_SHARED = "v1,"
_PUBLIC = "v1a,"


def verify(
    headers: Mapping[str, str], raw_body: bytes, *, secrets: Sequence[str], options: Verification, now: datetime
) -> str:
    return _verify("webhook", headers, raw_body, secrets=secrets, options=options, now=now)


def verify_svix(
    headers: Mapping[str, str], raw_body: bytes, *, secrets: Sequence[str], options: Verification, now: datetime
) -> str:
    """Reads the svix- headers, or the standard ones, which Svix also sends.

    The signed text is the same.
    """
    family: Literal["svix", "webhook"] = "svix" if "svix-id" in headers else "webhook"
    return _verify(family, headers, raw_body, secrets=secrets, options=options, now=now)


def _verify(
    family: Literal["svix", "webhook"],
    headers: Mapping[str, str],
    raw_body: bytes,
    *,
    secrets: Sequence[str],
    options: Verification,
    now: datetime,
) -> str:
    delivery_id = required_header(headers, f"{family}-id")
    timestamp = required_header(headers, f"{family}-timestamp")
    # A sender that rotates signs with its old and its new secret. Signatures of other versions are ignored.
    parts = required_header(headers, f"{family}-signature").split(" ")
    if len(parts) > MAX_SIGNATURES:
        raise SignatureError("malformed_header")
    check_time(timestamp, now, options.tolerance)
    shared = [key for key in map(decode_secret, secrets) if key is not None]
    public = [key for key in map(parse_public_key, secrets) if key is not None]
    if not shared and not public:
        raise SignatureError("unusable_secret")
    signed = f"{delivery_id}.{timestamp}.".encode() + raw_body
    by_secret = any_equal([sign(key, signed).encode() for key in shared], _signatures_of(parts, _SHARED))
    by_key = any([_is_signed(key, signature, signed) for key in public for signature in _signatures_of(parts, _PUBLIC)])  # noqa: C419 -- a list: no early exit
    if not (by_secret or by_key):
        raise SignatureError("no_match")
    return delivery_id


def sign(key: bytes, message: bytes) -> str:
    """Returns the base64 part of a `v1,` signature."""
    return base64.b64encode(hmac.digest(key, message, hashlib.sha256)).decode("ascii")


def decode_secret(secret: str) -> bytes | None:
    """Returns None for text that is no base64, and for an empty key.

    Anyone could sign with an empty key. The prefix of another kind of key is no base64 either.
    """
    return _decode_base64(secret.strip().removeprefix(SECRET_PREFIX)) or None


def parse_public_key(secret: str) -> Ed25519PublicKey | None:
    text = secret.strip()
    raw = _decode_base64(text.removeprefix(PUBLIC_KEY_PREFIX)) if text.startswith(PUBLIC_KEY_PREFIX) else None
    try:
        return None if raw is None else Ed25519PublicKey.from_public_bytes(raw)
    except ValueError:
        return None


def _signatures_of(parts: Sequence[str], version: str) -> list[bytes]:
    return [part.removeprefix(version).encode() for part in parts if part.startswith(version)]


def _is_signed(key: Ed25519PublicKey, signature: bytes, message: bytes) -> bool:
    try:
        key.verify(base64.b64decode(signature, validate=True), message)
    except (InvalidSignature, ValueError):
        return False
    return True


def _decode_base64(encoded: str) -> bytes | None:
    encoded = encoded.rstrip("=")
    try:
        return base64.b64decode(encoded + "=" * (-len(encoded) % 4), validate=True)
    except (binascii.Error, ValueError):
        return None
