"""Scheme `standard` against the reference library, its edges, and anything a stranger may send."""

import base64
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st
from standardwebhooks import Webhook

from tests.unit.triggers.property_settings import without_deadline
from tests.unit.triggers.webhook import scheme_calls
from triggers.webhook.schemes.signature_parts import SignatureError
from triggers.webhook.schemes.standard_webhooks import decode_secret, sign

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
OTHER = "whsec_" + base64.b64encode(b"another secret of some length").decode()
NOW = scheme_calls.NOW
BODY = '{"name": "Zoë", "n": 1.0}'


def signed_headers(
    *, secret: str = SECRET, at: datetime = NOW, body: str = BODY, delivery: str = "msg_1"
) -> dict[str, str]:
    return {
        "webhook-id": delivery,
        "webhook-timestamp": str(int(at.timestamp())),
        "webhook-signature": Webhook(secret).sign(msg_id=delivery, timestamp=at, data=body),
    }


def check(
    headers: Mapping[str, str], *, body: str | bytes = BODY, secrets: tuple[str, ...] = (SECRET,), now: datetime = NOW
) -> str | None:
    raw_body = body if isinstance(body, bytes) else body.encode()
    return scheme_calls.verify_call("standard", headers, raw_body, secrets=secrets, now=now)


def test_what_the_reference_library_signs_verifies() -> None:
    assert check(signed_headers()) == "msg_1"


def test_the_reference_library_verifies_what_we_sign() -> None:
    key = decode_secret(SECRET)
    assert key is not None
    timestamp = str(int(datetime.now(UTC).timestamp()))
    signature = "v1," + sign(key, f"msg_2.{timestamp}.{BODY}".encode())
    headers = {"webhook-id": "msg_2", "webhook-timestamp": timestamp, "webhook-signature": signature}

    assert Webhook(SECRET).verify(BODY, headers) == {"name": "Zoë", "n": 1.0}


def test_the_published_vector_verifies() -> None:
    headers = {
        "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
        "webhook-timestamp": "1614265330",
        "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
    }
    at = datetime.fromtimestamp(1614265330, UTC)

    assert check(headers, body='{"test": 2432232314}', now=at) == "msg_p5jXN8AQM9LWM0D4loKWxJek"


SEED = base64.b64decode("6Xb/dCcHpPea21PS1N9VY/NZW723CEc77N4rJCubMbc=")
SENDER = Ed25519PrivateKey.from_private_bytes(SEED)
PUBLIC_KEY = "whpk_" + base64.b64encode(SENDER.public_key().public_bytes_raw()).decode()
OTHER_KEY = "whpk_" + base64.b64encode(Ed25519PrivateKey.generate().public_key().public_bytes_raw()).decode()


def test_the_published_vector_of_public_keys_verifies() -> None:
    signature = "hnO3f9T8Ytu9HwrXslvumlUpqtNVqkhqw/enGzPCXe5BdqzCInXqYXFymVJaA7AZdpXwVLPo3mNl8EM+m7TBAg=="
    headers = {
        "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
        "webhook-timestamp": "1614265330",
        "webhook-signature": f"v1a,{signature}",
    }
    at, body = datetime.fromtimestamp(1614265330, UTC), '{"test": 2432232314}'

    assert check(headers, body=body, now=at, secrets=(PUBLIC_KEY,)) == "msg_p5jXN8AQM9LWM0D4loKWxJek"
    with pytest.raises(SignatureError):
        check(headers, body=body, now=at, secrets=(OTHER_KEY,))
    with pytest.raises(SignatureError):
        check(headers, body=body + " ", now=at, secrets=(PUBLIC_KEY,))


def by_public_key(body: str = BODY) -> dict[str, str]:
    signature = SENDER.sign(f"msg_1.{int(NOW.timestamp())}.{body}".encode())
    return {**signed_headers(), "webhook-signature": "v1a," + base64.b64encode(signature).decode()}


@pytest.mark.parametrize(
    "secrets", [(PUBLIC_KEY, OTHER_KEY), (OTHER_KEY, PUBLIC_KEY), (SECRET, PUBLIC_KEY), (PUBLIC_KEY, SECRET)]
)
def test_a_sender_moves_from_a_shared_secret_to_a_key_or_from_key_to_key(secrets: tuple[str, ...]) -> None:
    assert check(by_public_key(), secrets=secrets) == "msg_1"


@pytest.mark.parametrize("signature", ["v1a,", "v1a,AAAA", "v1a,ü", "v1a,not base64", "v1a," + "A" * 86 + "=="])
def test_a_changed_signature_by_key_is_refused(signature: str) -> None:
    with pytest.raises(SignatureError):
        check({**by_public_key(), "webhook-signature": signature}, secrets=(PUBLIC_KEY,))


def test_a_public_key_is_no_shared_secret() -> None:
    """It is public: a signature with it as HMAC key proves nothing."""
    raw = SENDER.public_key().public_bytes_raw()
    forged = sign(raw, f"msg_1.{int(NOW.timestamp())}.{BODY}".encode())
    with pytest.raises(SignatureError) as refused:
        check({**signed_headers(), "webhook-signature": f"v1,{forged}"}, secrets=(PUBLIC_KEY,))
    assert refused.value.reason == "no_match"


@pytest.mark.parametrize("secret", ["whpk_", "whpk_AAAA", "whpk_not base64", "whsk_" + base64.b64encode(SEED).decode()])
def test_what_is_no_public_key_verifies_nothing(secret: str) -> None:
    with pytest.raises(SignatureError) as refused:
        check(by_public_key(), secrets=(secret,))
    assert refused.value.reason == "unusable_secret"


def test_a_list_of_signatures_without_end_costs_nothing() -> None:
    headers = by_public_key()
    with pytest.raises(SignatureError) as refused:
        check({**headers, "webhook-signature": " ".join([headers["webhook-signature"]] * 21)}, secrets=(PUBLIC_KEY,))
    assert refused.value.reason == "malformed_header"


@pytest.mark.parametrize("family", ["svix", "webhook"])
def test_svix_signs_under_two_names_of_headers(family: str) -> None:
    headers = {name.replace("webhook", family): value for name, value in signed_headers().items()}
    assert scheme_calls.verify_call("svix", headers, BODY.encode(), secrets=(SECRET,)) == "msg_1"


def test_one_family_of_headers_is_not_mixed_with_the_other() -> None:
    headers = {**signed_headers(delivery="msg_1"), "svix-id": "msg_2"}
    assert scheme_calls.refusal_reason("svix", headers, BODY.encode(), secrets=(SECRET,)) == "missing_header"
    assert check({**signed_headers(), "svix-id": "msg_2"}) == "msg_1"


@pytest.mark.parametrize("prefix", ["", "v1a,AAAA ", "v1 ", "v1,, ", ",, ", "nonsense ", "v2,AAAA v1,QUJD ", " "])
def test_other_parts_of_the_signature_list_are_ignored(prefix: str) -> None:
    headers = signed_headers()
    assert check({**headers, "webhook-signature": prefix + headers["webhook-signature"]}) == "msg_1"


def test_a_rotated_secret_verifies_with_the_old_or_the_new_one() -> None:
    assert check(signed_headers(), secrets=(OTHER, SECRET)) == "msg_1"
    assert check(signed_headers(), secrets=(SECRET, OTHER)) == "msg_1"


def test_the_prefix_and_the_padding_of_a_secret_are_optional() -> None:
    bare = OTHER.removeprefix("whsec_").rstrip("=")
    assert check(signed_headers(secret=OTHER), secrets=(bare,)) == "msg_1"


@pytest.mark.parametrize("age_s", [-300, 0, 300])
def test_a_call_within_the_tolerance_verifies(age_s: int) -> None:
    assert check(signed_headers(), now=NOW + timedelta(seconds=age_s)) == "msg_1"


@pytest.mark.parametrize("age_s", [-301, 301, 86_400])
def test_a_call_outside_the_tolerance_is_refused_both_ways(age_s: int) -> None:
    with pytest.raises(SignatureError) as refused:
        check(signed_headers(), now=NOW + timedelta(seconds=age_s))
    assert refused.value.reason == "outside_tolerance"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"webhook-id": "msg_2"}, "no_match"),
        ({"webhook-timestamp": str(int(NOW.timestamp()) + 1)}, "no_match"),
        ({"webhook-signature": "v1,QUJD"}, "no_match"),
        ({"webhook-signature": "v1a,QUJD"}, "no_match"),
        ({"webhook-signature": ""}, "missing_header"),
        ({"webhook-id": ""}, "missing_header"),
        ({"webhook-id": "mü"}, "malformed_header"),
        ({"webhook-signature": "v1,ü"}, "malformed_header"),
        ({"webhook-timestamp": "1e9"}, "malformed_header"),
        ({"webhook-timestamp": "-5"}, "malformed_header"),
        ({"webhook-timestamp": "٣"}, "malformed_header"),
        ({"webhook-timestamp": "9" * 400}, "malformed_header"),
    ],
)
def test_a_changed_header_is_refused(change: dict[str, str], reason: str) -> None:
    with pytest.raises(SignatureError) as refused:
        check({**signed_headers(), **change})
    assert refused.value.reason == reason
    assert reason not in str(refused.value)


def test_one_changed_byte_of_the_body_is_refused() -> None:
    with pytest.raises(SignatureError):
        check(signed_headers(), body=BODY.replace("1.0", "1.00"))


@pytest.mark.parametrize("secret", ["", "whsec_", "not base64!", "ü", "="])
def test_a_secret_that_is_no_key_verifies_nothing(secret: str) -> None:
    forged = "v1," + sign(b"", f"msg_1.{int(NOW.timestamp())}.{BODY}".encode())
    with pytest.raises(SignatureError) as refused:
        check({**signed_headers(), "webhook-signature": forged}, secrets=(secret,))
    assert refused.value.reason == "unusable_secret"


NAMES = st.sampled_from(["webhook-id", "webhook-timestamp", "webhook-signature", "other"])
VALUES = st.one_of(st.text(), st.text("v1a, =/+"), st.integers().map(str), st.just(str(int(NOW.timestamp()))))


@without_deadline
@given(headers=st.dictionaries(NAMES, VALUES), body=st.binary(), secrets=st.lists(st.text()))
def test_anything_at_all_raises_only_a_signature_error(
    headers: dict[str, str], body: bytes, secrets: list[str]
) -> None:
    with pytest.raises(SignatureError):
        check(headers, body=body, secrets=tuple(secrets))


@without_deadline
@given(body=st.text(), delivery=st.text("abcXYZ0189._-", min_size=1))
def test_any_body_the_reference_signs_verifies(body: str, delivery: str) -> None:
    assert check(signed_headers(body=body, delivery=delivery), body=body) == delivery
