"""Scheme `github`: the documented vector, its edges, and anything a stranger may send."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.triggers.property_settings import without_deadline
from tests.unit.triggers.webhook import scheme_calls
from triggers.webhook.schemes.signature_parts import SignatureError

SECRET = "It's a Secret to Everybody"
BODY = b"Hello, World!"
SIGNATURE = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"
DELIVERY = "72d3162e-cc78-11e3-81ab-4c9367dc0958"
HEADERS = {"x-hub-signature-256": SIGNATURE, "x-github-delivery": DELIVERY}


def check(headers: dict[str, str], *, body: bytes = BODY, secrets: tuple[str, ...] = (SECRET,)) -> str | None:
    return scheme_calls.verify_call("github", headers, body, secrets=secrets)


def test_the_documented_vector_verifies() -> None:
    assert check(HEADERS) == DELIVERY


def test_a_rotated_secret_verifies_with_the_old_or_the_new_one() -> None:
    assert check(HEADERS, secrets=("new", SECRET)) == DELIVERY
    assert check(HEADERS, secrets=(SECRET, "new")) == DELIVERY


def test_a_call_without_a_delivery_id_has_none() -> None:
    assert check({"x-hub-signature-256": SIGNATURE}) is None


@pytest.mark.parametrize(
    ("signature", "reason"),
    [
        ("", "missing_header"),
        (SIGNATURE.removeprefix("sha256="), "malformed_header"),
        (SIGNATURE.replace("sha256", "sha1"), "malformed_header"),
        ("sha256=ü", "malformed_header"),
        ("sha256=", "no_match"),
        (SIGNATURE[:-1], "no_match"),
        (SIGNATURE + "0", "no_match"),
    ],
)
def test_a_changed_signature_is_refused(signature: str, reason: str) -> None:
    with pytest.raises(SignatureError) as refused:
        check({**HEADERS, "x-hub-signature-256": signature})
    assert refused.value.reason == reason


def test_one_changed_byte_of_the_body_is_refused() -> None:
    with pytest.raises(SignatureError):
        check(HEADERS, body=BODY + b"\n")


def test_an_empty_secret_verifies_nothing() -> None:
    with pytest.raises(SignatureError) as refused:
        check(HEADERS, secrets=("",))
    assert refused.value.reason == "unusable_secret"


NAMES = st.sampled_from(["x-hub-signature-256", "x-github-delivery", "other"])


@without_deadline
@given(
    headers=st.dictionaries(NAMES, st.one_of(st.text(), st.text().map("sha256={}".format))),
    body=st.binary(),
    secrets=st.lists(st.text(st.characters())),
)
def test_anything_at_all_raises_only_a_signature_error(
    headers: dict[str, str], body: bytes, secrets: list[str]
) -> None:
    with pytest.raises(SignatureError):
        check(headers, body=body, secrets=tuple(secrets))
