"""Schemes `bearer` and `basic`, which send the secret itself, and `none`."""

import base64
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.triggers.property_settings import without_deadline
from tests.unit.triggers.webhook.scheme_calls import refusal_reason, verify_call
from triggers.webhook.schemes.signature_parts import SignatureError
from workflows.package.trigger_specs.webhook_spec import Scheme

SECRET = "s3cret: ü"


def basic(text: str) -> dict[str, str]:
    return {"authorization": "Basic " + base64.b64encode(text.encode()).decode()}


@pytest.mark.parametrize(
    ("headers", "options"),
    [
        ({"authorization": "Bearer abc"}, {}),
        ({"authorization": "bearer  abc"}, {}),
        ({"x-gitlab-token": "abc"}, {"header": "X-Gitlab-Token"}),
        ({"x-auth": "Key abc"}, {"header": "X-Auth", "prefix": "Key "}),
        ({"authorization": "Token abc"}, {"prefix": "Token "}),
    ],
)
@pytest.mark.parametrize("secrets", [("abc",), ("new", "abc"), ("abc", "new")])
def test_a_token_is_taken_from_the_declared_place(
    headers: dict[str, str], options: dict[str, Any], secrets: tuple[str, ...]
) -> None:
    assert verify_call("bearer", headers, b"", secrets=secrets, **options) is None


@pytest.mark.parametrize(
    ("headers", "reason"),
    [
        ({}, "missing_header"),
        ({"x-gitlab-token": "abc"}, "missing_header"),
        ({"authorization": "abc"}, "malformed_header"),
        ({"authorization": "Basic abc"}, "malformed_header"),
        ({"authorization": "Bearer ü"}, "malformed_header"),
        ({"authorization": "Bearer "}, "no_match"),
        ({"authorization": "Bearer ab"}, "no_match"),
        ({"authorization": "Bearer abcd"}, "no_match"),
        ({"authorization": "Bearer ABC"}, "no_match"),
    ],
)
def test_another_token_is_refused(headers: dict[str, str], reason: str) -> None:
    assert refusal_reason("bearer", headers, b"", secrets=("abc",)) == reason


def test_a_name_and_a_password_verify_together() -> None:
    verify_call("basic", basic(f"ada:{SECRET}"), b"", secrets=("new", SECRET), username="ada")
    verify_call("basic", basic(f"ada:{SECRET}"), b"", secrets=(SECRET, "new"), username="ada")


@pytest.mark.parametrize(
    ("headers", "reason"),
    [
        ({}, "missing_header"),
        ({"authorization": "Bearer abc"}, "malformed_header"),
        ({"authorization": "Basic ???"}, "malformed_header"),
        ({"authorization": "Basic YWJ"}, "malformed_header"),
        (basic("ada"), "no_match"),
        (basic("ada:"), "no_match"),
        (basic(f"bob:{SECRET}"), "no_match"),
        (basic(f"ada:{SECRET}x"), "no_match"),
        (basic(f":{SECRET}"), "no_match"),
    ],
)
def test_another_name_or_password_is_refused(headers: dict[str, str], reason: str) -> None:
    assert refusal_reason("basic", headers, b"", secrets=(SECRET,), username="ada") == reason


@pytest.mark.parametrize("scheme", ["bearer", "basic"])
def test_an_empty_secret_verifies_nothing(scheme: Scheme) -> None:
    options: dict[str, Any] = {"username": "ada"} if scheme == "basic" else {}
    for headers in ({"authorization": "Bearer "}, {"authorization": "Bearer x"}, basic("ada:")):
        with pytest.raises(SignatureError):
            verify_call(scheme, headers, b"", secrets=("",), **options)


def test_none_proves_nothing_and_names_nothing() -> None:
    assert verify_call("none", {}, b"anything", secrets=()) is None


@without_deadline
@given(text=st.text(), scheme=st.sampled_from(["bearer", "basic"]), secrets=st.lists(st.text(st.characters())))
def test_anything_at_all_raises_only_a_signature_error(text: str, scheme: Scheme, secrets: list[str]) -> None:
    options: dict[str, Any] = {"username": "ada"} if scheme == "basic" else {}
    with pytest.raises(SignatureError):
        verify_call(scheme, {"authorization": f"{scheme} {text}\x00"}, b"", secrets=tuple(secrets), **options)
