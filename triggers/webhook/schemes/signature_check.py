"""Signatures: what every verification scheme takes, returns and raises."""

import hashlib
import hmac
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Literal, Protocol

from workflows.package.trigger_specs.webhook_spec import Verification

RefusalReason = Literal["missing_header", "malformed_header", "outside_tolerance", "unusable_secret", "no_match"]


class SignatureError(Exception):
    """The call is not proven. `reason` is for the operator; whoever calls is told nothing but 401."""

    def __init__(self, reason: RefusalReason) -> None:
        super().__init__("the signature does not verify")
        self.reason = reason


class Verify(Protocol):
    """Proves that somebody who holds one of the secrets sent exactly these bytes.

    Header names are in lower case. Returns the delivery id, None where the headers give none; raises
    SignatureError and nothing else. Every secret is tried, so that timing does not tell which one was right.
    """

    def __call__(
        self,
        headers: Mapping[str, str],
        raw_body: bytes,
        /,
        *,
        secrets: Sequence[str],
        options: Verification,
        now: datetime,
    ) -> str | None: ...


def printable_header(headers: Mapping[str, str], name: str) -> str | None:
    """A header's text; absent or empty is None. Anything but printable ASCII is refused, not guessed at."""
    text = headers.get(name)
    if not text:
        return None
    if not (text.isascii() and text.isprintable()):
        raise SignatureError("malformed_header")
    return text


def required_header(headers: Mapping[str, str], name: str) -> str:
    text = printable_header(headers, name)
    if text is None:
        raise SignatureError("missing_header")
    return text


def check_time(timestamp: str, now: datetime, tolerance: timedelta) -> None:
    """Both ways: a timestamp from the future would stretch the window in which a call can be replayed."""
    if not (timestamp.isascii() and timestamp.isdigit() and len(timestamp) <= 15):
        raise SignatureError("malformed_header")
    if abs(now.timestamp() - int(timestamp)) > tolerance.total_seconds():
        raise SignatureError("outside_tolerance")


def text_keys(secrets: Sequence[str]) -> list[bytes]:
    """Of a scheme whose key is the secret's text as it stands. With an empty one anybody could sign."""
    return require_keys([secret.encode("utf-8", "surrogatepass") for secret in secrets])


def require_keys(keys: Iterable[bytes | None]) -> list[bytes]:
    found = [key for key in keys if key]
    if not found:
        raise SignatureError("unusable_secret")
    return found


def any_equal(expected: Iterable[bytes], actual: Sequence[bytes]) -> bool:
    """Bytes, because compare_digest raises TypeError on text that is not ASCII."""
    return any([hmac.compare_digest(one, other) for one in expected for other in actual])  # noqa: C419 -- a list: no early exit


def fingerprint(secret: bytes) -> bytes:
    """Secrets that are sent as they are get compared by this: comparing them directly would tell their length."""
    return hashlib.sha256(secret).digest()
