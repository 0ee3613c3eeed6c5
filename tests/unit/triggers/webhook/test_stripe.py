"""Scheme `stripe`: the documented scheme, computed here a second time from its description, and what is not it."""

import hashlib
import hmac
from datetime import timedelta

import pytest

from tests.unit.triggers.webhook.scheme_calls import NOW, NOW_S, refusal_reason, verify_call

SECRET = "whsec_test_secret"
BODY = b'{\n  "id": "evt_test_webhook",\n  "object": "event"\n}'


def v1(*, secret: str = SECRET, at: int = NOW_S, body: bytes = BODY) -> str:
    """As documented by Stripe: HMAC with SHA-256 of timestamp, dot and body; the secret's text is the key."""
    digest = hmac.new(secret.encode(), str(at).encode() + b"." + body, hashlib.sha256)
    return f"v1={digest.hexdigest()}"


def header(*parts: str) -> dict[str, str]:
    return {"stripe-signature": ",".join(parts)}


T = f"t={NOW_S}"


def test_a_signed_call_verifies_and_its_id_is_in_the_body() -> None:
    assert verify_call("stripe", header(T, v1()), BODY, secrets=(SECRET,)) is None


@pytest.mark.parametrize("parts", [(v1(secret="old"), v1()), (v1(), v1(secret="old")), ("v0=6ffbb59b", v1())])
def test_during_their_rotation_one_signature_of_several_is_enough(parts: tuple[str, ...]) -> None:
    verify_call("stripe", header(T, *parts), BODY, secrets=(SECRET,))


def test_during_our_rotation_the_old_or_the_new_secret_is_enough() -> None:
    verify_call("stripe", header(T, v1()), BODY, secrets=("new", SECRET))
    verify_call("stripe", header(T, v1()), BODY, secrets=(SECRET, "new"))


@pytest.mark.parametrize("age_s", [-300, 300])
def test_within_the_tolerance_verifies(age_s: int) -> None:
    verify_call("stripe", header(T, v1()), BODY, secrets=(SECRET,), now=NOW + timedelta(seconds=age_s))


@pytest.mark.parametrize("age_s", [-301, 301])
def test_outside_the_tolerance_is_refused_both_ways(age_s: int) -> None:
    now = NOW + timedelta(seconds=age_s)
    assert refusal_reason("stripe", header(T, v1()), BODY, secrets=(SECRET,), now=now) == "outside_tolerance"


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({}, "missing_header"),
        (header(""), "missing_header"),
        (header("nonsense"), "malformed_header"),
        (header(T), "malformed_header"),
        (header(v1()), "malformed_header"),
        (header(T, f"t={NOW_S + 1}", v1()), "malformed_header"),
        (header("t=", v1()), "malformed_header"),
        (header("t=-1", v1()), "malformed_header"),
        (header("t=1e9", v1()), "malformed_header"),
        (header(T, *[v1()] * 20), "malformed_header"),
        (header(T, v1().replace("v1=", "v0=")), "malformed_header"),
        (header(T, "v1=ü"), "malformed_header"),
        (header(T, "v1="), "no_match"),
        (header(T, v1()[:-1]), "no_match"),
        (header(f"t={NOW_S + 1}", v1()), "no_match"),
        (header(T, v1(body=BODY + b" ")), "no_match"),
    ],
)
def test_a_changed_header_is_refused(given: dict[str, str], reason: str) -> None:
    assert refusal_reason("stripe", given, BODY, secrets=(SECRET,)) == reason


def test_an_empty_secret_verifies_nothing() -> None:
    assert refusal_reason("stripe", header(T, v1(secret="")), BODY, secrets=("",)) == "unusable_secret"
