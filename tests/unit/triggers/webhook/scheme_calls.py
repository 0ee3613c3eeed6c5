"""Checking a call against a scheme, for the tests of each."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import pytest

from triggers.webhook.schemes.signature_parts import SignatureError
from triggers.webhook.signature_check import SCHEMES
from workflows.package.trigger_specs.webhook_spec import Scheme, Verification

NOW = datetime(2026, 3, 29, 1, 0, tzinfo=UTC)
NOW_S = int(NOW.timestamp())


def verify_call(
    scheme: Scheme,
    headers: Mapping[str, str],
    body: bytes,
    *,
    secrets: tuple[str, ...],
    now: datetime = NOW,
    **options: Any,
) -> str | None:
    verification = Verification(scheme=scheme, secret=() if scheme == "none" else ("env:KEY",), **options)
    return SCHEMES[scheme].verify(headers, body, secrets=secrets, options=verification, now=now)


def refusal_reason(
    scheme: Scheme,
    headers: Mapping[str, str],
    body: bytes,
    *,
    secrets: tuple[str, ...],
    now: datetime = NOW,
    **options: Any,
) -> str:
    with pytest.raises(SignatureError) as refused:
        verify_call(scheme, headers, body, secrets=secrets, now=now, **options)
    assert str(refused.value) == "the signature does not verify"
    return refused.value.reason
