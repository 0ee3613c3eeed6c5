"""Scheme `hmac`: signatures as an author describes them."""

import base64
import hashlib
import hmac
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.triggers.property_settings import without_deadline
from tests.unit.triggers.webhook.scheme_calls import NOW_S, refusal_reason, verify_call
from triggers.webhook.schemes.generic_hmac import signed_bytes
from triggers.webhook.schemes.signature_parts import SignatureError

SECRET = "a secret of ours"
BODY = b'{"n": 1.0}'
PLAIN: dict[str, Any] = {"header": "X-Signature"}
TIMED: dict[str, Any] = {"header": "X-Signature", "timestamp_header": "X-Time"}


def digest(signed: bytes = BODY, *, secret: str = SECRET, algorithm: str = "sha256") -> bytes:
    return hmac.new(secret.encode(), signed, algorithm).digest()


def hex_digest(signed: bytes = BODY, **options: str) -> str:
    return digest(signed, **options).hex()


@pytest.mark.parametrize("algorithm", ["sha256", "sha512", "sha1"])
def test_each_algorithm_and_encoding_verifies_and_no_other(algorithm: str) -> None:
    raw = digest(algorithm=algorithm)
    for encoding, text in (("hex", raw.hex()), ("hex", raw.hex().upper()), ("base64", base64.b64encode(raw).decode())):
        options = {**PLAIN, "algorithm": algorithm, "encoding": encoding}
        assert verify_call("hmac", {"x-signature": text}, BODY, secrets=(SECRET,), **options) is None
    assert len(raw) == hashlib.new(algorithm).digest_size
    other = "sha512" if algorithm != "sha512" else "sha256"
    assert (
        refusal_reason("hmac", {"x-signature": raw.hex()}, BODY, secrets=(SECRET,), **PLAIN, algorithm=other)
        == "no_match"
    )


def test_the_documented_vector_of_github_verifies_by_description() -> None:
    headers = {"x-hub-signature-256": "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"}
    options: dict[str, Any] = {"header": "X-Hub-Signature-256", "prefix": "sha256="}
    verify_call("hmac", headers, b"Hello, World!", secrets=("It's a Secret to Everybody",), **options)


def test_a_timestamp_is_signed_with_the_body() -> None:
    headers = {"x-time": str(NOW_S), "x-signature": hex_digest(f"{NOW_S}.".encode() + BODY)}

    verify_call("hmac", headers, BODY, secrets=(SECRET,), **TIMED)
    later = {**headers, "x-time": str(NOW_S + 1)}
    assert refusal_reason("hmac", later, BODY, secrets=(SECRET,), **TIMED) == "no_match"
    old = {"x-time": str(NOW_S - 301), "x-signature": hex_digest(f"{NOW_S - 301}.".encode() + BODY)}
    assert refusal_reason("hmac", old, BODY, secrets=(SECRET,), **TIMED) == "outside_tolerance"
    assert refusal_reason("hmac", {"x-signature": "00"}, BODY, secrets=(SECRET,), **TIMED) == "missing_header"


def test_what_is_signed_may_be_described() -> None:
    options = {**TIMED, "id_header": "X-Id", "signed": "v9:{id}|{timestamp}|{body}!"}
    signed = f"v9:d-1|{NOW_S}|".encode() + BODY + b"!"
    headers = {"x-time": str(NOW_S), "x-id": "d-1", "x-signature": hex_digest(signed)}

    assert verify_call("hmac", headers, BODY, secrets=(SECRET,), **options) == "d-1"
    assert refusal_reason("hmac", {**headers, "x-id": "d-2"}, BODY, secrets=(SECRET,), **options) == "no_match"
    del headers["x-id"]
    assert refusal_reason("hmac", headers, BODY, secrets=(SECRET,), **options) == "missing_header"


def test_an_id_that_is_not_signed_may_be_missing() -> None:
    options = {**PLAIN, "id_header": "X-Id"}
    assert (
        verify_call("hmac", {"x-signature": hex_digest(), "x-id": "d-1"}, BODY, secrets=(SECRET,), **options) == "d-1"
    )
    assert verify_call("hmac", {"x-signature": hex_digest()}, BODY, secrets=(SECRET,), **options) is None


@pytest.mark.parametrize("others", ["sha256=00", "sha256=zz", "sha1=00", "", "00"])
def test_one_signature_of_a_list_is_enough(others: str) -> None:
    ours = f"sha256={hex_digest()}"
    for text in (f"{others},{ours}", f"{ours}, {others}"):
        verify_call("hmac", {"x-signature": text}, BODY, secrets=("new", SECRET), **PLAIN, prefix="sha256=")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "missing_header"),
        ("ü", "malformed_header"),
        ("not hexadecimal", "malformed_header"),
        ("sha1=" + hex_digest(), "malformed_header"),
        (",".join([hex_digest()] * 21), "malformed_header"),
        (hex_digest()[:-2], "no_match"),
        (hex_digest(secret="another"), "no_match"),
    ],
)
def test_a_changed_signature_is_refused(text: str, reason: str) -> None:
    assert refusal_reason("hmac", {"x-signature": text}, BODY, secrets=(SECRET,), **PLAIN) == reason


def test_a_signature_without_its_prefix_is_refused() -> None:
    headers = {"x-signature": hex_digest()}
    assert refusal_reason("hmac", headers, BODY, secrets=(SECRET,), **PLAIN, prefix="sha256=") == "malformed_header"


def test_an_empty_secret_verifies_nothing() -> None:
    headers = {"x-signature": hex_digest(secret="")}
    assert refusal_reason("hmac", headers, BODY, secrets=("",), **PLAIN) == "unusable_secret"


def test_placeholders_in_the_values_are_not_filled_in() -> None:
    filled = signed_bytes("{id}.{body}", body=b"{timestamp}{id}", timestamp="1", delivery_id="{body}")
    assert filled == b"{body}.{timestamp}{id}"


NAMES = st.sampled_from(["x-signature", "x-time", "x-id"])
VALUES = st.one_of(st.text(), st.text("0123456789abcdef,= "), st.just(str(NOW_S)))


@without_deadline
@given(
    headers=st.dictionaries(NAMES, VALUES),
    body=st.binary(),
    secrets=st.lists(st.text(st.characters())),
    encoding=st.sampled_from(["hex", "base64"]),
)
def test_anything_at_all_raises_only_a_signature_error(
    headers: dict[str, str], body: bytes, secrets: list[str], encoding: str
) -> None:
    with pytest.raises(SignatureError):
        verify_call("hmac", headers, body, secrets=tuple(secrets), **TIMED, encoding=encoding, id_header="X-Id")
