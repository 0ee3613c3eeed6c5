"""Scheme `slack`: the documented vector, its edges, and the question that is asked when an address is entered."""

import hashlib
import hmac
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.unit.triggers.webhook.scheme_calls import NOW, NOW_S, refusal_reason, verify_call
from triggers.webhook.schemes.slack import find_challenge

SECRET = "8f742231b10e8888abcd99yyyzzz85a5"
COMMAND = (
    b"token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V"
    b"&channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect&text="
    b"&response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN"
    b"&trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c"
)
BODY = b'{"type": "event_callback", "event_id": "Ev08MFMKH6"}'


def signed_headers(*, at: int = NOW_S, body: bytes = BODY, secret: str = SECRET) -> dict[str, str]:
    digest = hmac.new(secret.encode(), f"v0:{at}:".encode() + body, hashlib.sha256).hexdigest()
    return {"x-slack-request-timestamp": str(at), "x-slack-signature": f"v0={digest}"}


def test_the_documented_vector_verifies() -> None:
    headers = {
        "x-slack-request-timestamp": "1531420618",
        "x-slack-signature": "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503",
    }
    at = datetime.fromtimestamp(1531420618, UTC)

    verify_call("slack", headers, COMMAND, secrets=(SECRET,), now=at)
    assert refusal_reason("slack", headers, COMMAND + b"&", secrets=(SECRET,), now=at) == "no_match"


def test_a_rotated_secret_verifies_with_the_old_or_the_new_one() -> None:
    verify_call("slack", signed_headers(), BODY, secrets=("new", SECRET))
    verify_call("slack", signed_headers(), BODY, secrets=(SECRET, "new"))


@pytest.mark.parametrize("age_s", [-301, 301])
def test_outside_the_tolerance_is_refused_both_ways(age_s: int) -> None:
    now = NOW + timedelta(seconds=age_s)
    assert refusal_reason("slack", signed_headers(), BODY, secrets=(SECRET,), now=now) == "outside_tolerance"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"x-slack-signature": ""}, "missing_header"),
        ({"x-slack-request-timestamp": ""}, "missing_header"),
        ({"x-slack-signature": "v1=00"}, "malformed_header"),
        ({"x-slack-signature": "v0=ü"}, "malformed_header"),
        ({"x-slack-request-timestamp": "soon"}, "malformed_header"),
        ({"x-slack-request-timestamp": "9" * 400}, "malformed_header"),
        ({"x-slack-signature": "v0="}, "no_match"),
        ({"x-slack-request-timestamp": str(NOW_S - 1)}, "no_match"),
    ],
)
def test_a_changed_header_is_refused(change: dict[str, str], reason: str) -> None:
    assert refusal_reason("slack", {**signed_headers(), **change}, BODY, secrets=(SECRET,)) == reason


def test_an_empty_secret_verifies_nothing() -> None:
    assert refusal_reason("slack", signed_headers(secret=""), BODY, secrets=("",)) == "unusable_secret"


@pytest.mark.parametrize(
    ("body", "challenge"),
    [
        ({"type": "url_verification", "challenge": "3eZbrw1a"}, "3eZbrw1a"),
        ({"type": "url_verification", "challenge": "x" * 5_000}, "x" * 1_000),
        ({"type": "url_verification", "challenge": 1}, None),
        ({"type": "url_verification"}, None),
        ({"type": "event_callback", "challenge": "3eZbrw1a"}, None),
        (["url_verification"], None),
        (None, None),
    ],
)
def test_only_the_question_for_the_address_is_answered(body: Any, challenge: str | None) -> None:
    assert find_challenge(body) == challenge
