"""Signatures: what every verification scheme takes, returns and raises."""

import hmac
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Literal, Protocol

Reason = Literal["missing_header", "malformed_header", "outside_tolerance", "unusable_secret", "no_match"]


class SignatureError(Exception):
    """The call is not proven. `reason` is for the operator's log; whoever calls is told nothing but 401."""

    def __init__(self, reason: Reason) -> None:
        super().__init__("the signature does not verify")
        self.reason = reason


class Verify(Protocol):
    """Proves that somebody who holds one of the secrets sent exactly these bytes.

    Header names are in lower case. Returns the delivery id, None where the sender gave none; raises
    SignatureError and nothing else.
    """

    def __call__(
        self,
        headers: Mapping[str, str],
        raw_body: bytes,
        *,
        secrets: Sequence[str],
        now: datetime,
        tolerance: timedelta,
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


def any_equal(expected: bytes, given: Iterable[bytes]) -> bool:
    """Bytes, because compare_digest raises TypeError on text that is not ASCII."""
    return any([hmac.compare_digest(expected, each) for each in given])  # noqa: C419 -- a list: no early exit
