"""Scheme `github`: X-Hub-Signature-256 over the body, X-GitHub-Delivery as the delivery id."""

import hashlib
import hmac
from collections.abc import Mapping, Sequence

from triggers.webhook.schemes.signature_check import (
    SignatureError,
    any_equal,
    printable_header,
    required_header,
    text_keys,
)

_PREFIX = "sha256="


def verify(headers: Mapping[str, str], raw_body: bytes, *, secrets: Sequence[str], **_rest: object) -> str | None:
    """GitHub signs no timestamp: the delivery id as dedupe key is the only guard against a replay, and as it is not
    signed either, only against one that changes nothing."""
    signature = required_header(headers, "x-hub-signature-256")
    if not signature.startswith(_PREFIX):
        raise SignatureError("malformed_header")
    given = [signature.removeprefix(_PREFIX).encode()]
    if not any_equal([sign(key, raw_body).encode() for key in text_keys(secrets)], given):
        raise SignatureError("no_match")
    return printable_header(headers, "x-github-delivery")


def sign(key: bytes, raw_body: bytes) -> str:
    """The hexadecimal part of the signature."""
    return hmac.digest(key, raw_body, hashlib.sha256).hex()
