"""Signatures of Standard Webhooks 1.0: one per shared secret.

So a receiver can rotate its secret.
"""

import base64
import binascii
import hashlib
import hmac
from collections.abc import Mapping, Sequence

PREFIX = "whsec_"
MIN_KEY_BYTES, MAX_KEY_BYTES = 24, 64


def parse_signing_keys(secrets: Sequence[str]) -> Sequence[bytes]:
    """Decodes the secrets.

    Raises ValueError for a bad one or for none; its text never holds the secret.
    """
    if not secrets:
        raise ValueError("there is no secret to sign with")
    return [_parse_key(secret) for secret in secrets]


def sign_headers(batch_id: str, body: bytes, *, keys: Sequence[bytes], at_s: int) -> Mapping[str, str]:
    signed = f"{batch_id}.{at_s}.".encode() + body
    signatures = [base64.b64encode(hmac.digest(key, signed, hashlib.sha256)).decode("ascii") for key in keys]
    return {
        "webhook-id": batch_id,
        "webhook-timestamp": str(at_s),
        "webhook-signature": " ".join(f"v1,{signature}" for signature in signatures),
    }


def _parse_key(secret: str) -> bytes:
    encoded = secret.strip().removeprefix(PREFIX).rstrip("=")
    try:
        key = base64.b64decode(encoded + "=" * (-len(encoded) % 4), validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if not MIN_KEY_BYTES <= len(key) <= MAX_KEY_BYTES:
        raise ValueError(f"the secret must be {PREFIX} and {MIN_KEY_BYTES} to {MAX_KEY_BYTES} bytes in base64")
    return key
