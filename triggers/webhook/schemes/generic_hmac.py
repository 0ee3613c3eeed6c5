"""Scheme `hmac`: a signature as the trigger describes it."""

import base64
import binascii
import hmac
import re
from collections.abc import Mapping, Sequence
from datetime import datetime

from triggers.webhook.schemes.signature_parts import (
    SignatureError,
    any_equal,
    check_time,
    printable_header,
    required_header,
    text_keys,
)
from workflows.package.trigger_specs.webhook_spec import Verification

MAX_SIGNATURES = 20
_PLACEHOLDER = re.compile(r"\{(body|timestamp|id)\}")


def verify(
    headers: Mapping[str, str], raw_body: bytes, *, secrets: Sequence[str], options: Verification, now: datetime
) -> str | None:
    signatures = _read_signatures(required_header(headers, _lower(options.header)), options)
    timestamp = delivery_id = None
    if options.timestamp_header is not None:
        timestamp = required_header(headers, _lower(options.timestamp_header))
        check_time(timestamp, now, options.tolerance)
    if options.id_header is not None:
        # An id that is part of the signed text is required; one that only identifies the delivery is optional.
        read = required_header if "{id}" in options.signed_template else printable_header
        delivery_id = read(headers, _lower(options.id_header))
    signed = signed_bytes(options.signed_template, body=raw_body, timestamp=timestamp, delivery_id=delivery_id)
    if not any_equal([hmac.digest(key, signed, options.algorithm) for key in text_keys(secrets)], signatures):
        raise SignatureError("no_match")
    return delivery_id


def signed_bytes(template: str, *, body: bytes, timestamp: str | None, delivery_id: str | None) -> bytes:
    values = {"body": body, "timestamp": (timestamp or "").encode(), "id": (delivery_id or "").encode()}
    parts = _PLACEHOLDER.split(template)  # literal text, a name, literal text, …
    return b"".join(values[part] if at % 2 else part.encode() for at, part in enumerate(parts))


def _read_signatures(header: str, options: Verification) -> list[bytes]:
    """Returns the readable signatures: a sender that rotates its secret sends several."""
    prefix = options.prefix or ""
    parts = [part.strip() for part in header.split(",")]
    if len(parts) > MAX_SIGNATURES:
        raise SignatureError("malformed_header")
    texts = [part.removeprefix(prefix) for part in parts if part.startswith(prefix)]
    found = [signature for text in texts if (signature := _decode_signature(text, options.encoding)) is not None]
    if not found:
        raise SignatureError("malformed_header")
    return found


def _decode_signature(text: str, encoding: str) -> bytes | None:
    try:
        return binascii.unhexlify(text) if encoding == "hex" else base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None


def _lower(header: str | None) -> str:
    return (header or "").lower()
