"""Scheme `github`: X-Hub-Signature-256 over the body.

X-GitHub-Delivery is the delivery id.
"""

import hashlib
import hmac
from collections.abc import Mapping, Sequence

from triggers.webhook.schemes.signature_parts import (
    SignatureError,
    any_equal,
    printable_header,
    required_header,
    text_keys,
)

_PREFIX = "sha256="


def verify(headers: Mapping[str, str], raw_body: bytes, *, secrets: Sequence[str], **_rest: object) -> str | None:
    """Verifies the body's signature. GitHub signs no timestamp.

    The dedupe key from the delivery id is the only guard against replays. The id is not signed either, so a replay
    under another id passes.
    """
    signature = required_header(headers, "x-hub-signature-256")
    if not signature.startswith(_PREFIX):
        raise SignatureError("malformed_header")
    signatures = [signature.removeprefix(_PREFIX).encode()]
    if not any_equal([sign(key, raw_body).encode() for key in text_keys(secrets)], signatures):
        raise SignatureError("no_match")
    return printable_header(headers, "x-github-delivery")


def sign(key: bytes, raw_body: bytes) -> str:
    """Returns the hexadecimal part of the signature."""
    return hmac.digest(key, raw_body, hashlib.sha256).hex()
