"""Signature checks: the interface and shared parts of the schemes."""

import hashlib
import hmac
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Literal, Protocol

from workflows.package.trigger_specs.webhook_spec import Verification

RefusalReason = Literal["missing_header", "malformed_header", "outside_tolerance", "unusable_secret", "no_match"]


class SignatureError(Exception):
    """The call is not verified. Operators see `reason`; the caller gets a plain 401."""

    def __init__(self, reason: RefusalReason) -> None:
        super().__init__("the signature does not verify")
        self.reason = reason


class Verify(Protocol):
    """Verifies that a holder of one of the secrets sent exactly these bytes.

    Header names are in lower case. Returns the delivery id, or None where no header has one. Raises only
    SignatureError. Tries all secrets, so that timing does not reveal which one matched.
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
    """Returns a header's text; None for an absent or empty one.

    Refuses all but printable ASCII.
    """
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
    """Refuses future timestamps too: they would extend the window for replays."""
    if not (timestamp.isascii() and timestamp.isdigit() and len(timestamp) <= 15):
        raise SignatureError("malformed_header")
    if abs(now.timestamp() - int(timestamp)) > tolerance.total_seconds():
        raise SignatureError("outside_tolerance")


def text_keys(secrets: Sequence[str]) -> list[bytes]:
    """Returns the keys of a scheme that uses the secret's text itself.

    Drops an empty secret: anyone could sign with it.
    """
    found = [secret.encode("utf-8", "surrogatepass") for secret in secrets if secret]
    if not found:
        raise SignatureError("unusable_secret")
    return found


def any_equal(expected: Iterable[bytes], actual: Sequence[bytes]) -> bool:
    """Compares in constant time.

    Takes bytes: compare_digest raises TypeError on text that is not ASCII.
    """
    return any([hmac.compare_digest(one, other) for one in expected for other in actual])  # noqa: C419 -- a list: no early exit


def fingerprint(secret: bytes) -> bytes:
    """Hashes a plain secret: comparing the text would reveal its length."""
    return hashlib.sha256(secret).digest()
