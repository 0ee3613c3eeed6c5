"""Scheme `github`: X-Hub-Signature-256 over the body, X-GitHub-Delivery as the delivery id."""

import hashlib
import hmac
from collections.abc import Mapping, Sequence

from triggers.webhook.signature import SignatureError, any_equal, printable_header, required_header

_PREFIX = "sha256="


def verify(
    headers: Mapping[str, str], raw_body: bytes, *, secrets: Sequence[str], **_without_a_clock: object
) -> str | None:
    """GitHub signs no timestamp: the delivery id as dedupe key is the only guard against a replay."""
    signature = required_header(headers, "x-hub-signature-256")
    if not signature.startswith(_PREFIX):
        raise SignatureError("malformed_header")
    given = [signature.removeprefix(_PREFIX).encode()]
    keys = [secret.encode("utf-8", "surrogatepass") for secret in secrets if secret]
    if not keys:
        raise SignatureError("unusable_secret")
    if not any([any_equal(sign(key, raw_body).encode(), given) for key in keys]):  # noqa: C419 -- no early exit
        raise SignatureError("no_match")
    return printable_header(headers, "x-github-delivery")


def sign(key: bytes, raw_body: bytes) -> str:
    """The hexadecimal part of the signature."""
    return hmac.digest(key, raw_body, hashlib.sha256).hex()
