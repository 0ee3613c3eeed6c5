"""Schemes `bearer`, `basic` and `none`.

The secret itself is in a header and nothing is signed, so the connection must be private. `none` verifies nothing.
"""

import base64
import binascii
from collections.abc import Mapping, Sequence

from triggers.webhook.schemes.signature_parts import SignatureError, any_equal, fingerprint, required_header, text_keys
from workflows.package.trigger_specs.webhook_spec import Verification

AUTHORIZATION = "authorization"


def verify_bearer(
    headers: Mapping[str, str], _raw_body: bytes, *, secrets: Sequence[str], options: Verification, **_rest: object
) -> None:
    header = (options.header or AUTHORIZATION).lower()
    prefix = options.prefix or ("Bearer " if options.header is None else "")
    text = required_header(headers, header)
    if text[: len(prefix)].lower() != prefix.lower():
        raise SignatureError("malformed_header")
    _check_secret(text[len(prefix) :].strip().encode(), text_keys(secrets))


def verify_basic(
    headers: Mapping[str, str], _raw_body: bytes, *, secrets: Sequence[str], options: Verification, **_rest: object
) -> None:
    scheme, _, encoded = required_header(headers, AUTHORIZATION).partition(" ")
    if scheme.lower() != "basic":
        raise SignatureError("malformed_header")
    try:
        credentials = base64.b64decode(encoded.strip(), validate=True)
    except (binascii.Error, ValueError):
        raise SignatureError("malformed_header") from None
    username = f"{options.username}:".encode("utf-8", "surrogatepass")
    _check_secret(credentials, [username + key for key in text_keys(secrets)])


def verify_nothing(_headers: Mapping[str, str], _raw_body: bytes, **_rest: object) -> None:
    """Accepts each call.

    `webhook_secrets.py` decides whether the trigger may use this scheme.
    """


def _check_secret(sent_secret: bytes, secrets: Sequence[bytes]) -> None:
    if not any_equal([fingerprint(secret) for secret in secrets], [fingerprint(sent_secret)]):
        raise SignatureError("no_match")
