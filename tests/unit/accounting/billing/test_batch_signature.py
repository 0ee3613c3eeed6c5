"""Batch signatures, against the reference library of Standard Webhooks."""

import base64
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from standardwebhooks import Webhook
from standardwebhooks.webhooks import WebhookVerificationError

from accounting.billing.batch_signature import parse_signing_keys, sign_headers

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
OTHER = f"whsec_{base64.b64encode(bytes(range(64))).decode()}"
BODY = '{"type":"usage.batch","data":{"events":[{"app_id":"ä"}]}}'.encode()


def headers(*secrets: str, body: bytes = BODY) -> dict[str, str]:
    return dict(sign_headers("batch_1", body, keys=parse_signing_keys(secrets), at_s=int(time.time())))


def test_the_published_vector_is_met() -> None:
    made = sign_headers(
        "msg_p5jXN8AQM9LWM0D4loKWxJek", b'{"test": 2432232314}', keys=parse_signing_keys([SECRET]), at_s=1614265330
    )

    assert made["webhook-signature"] == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
    assert (made["webhook-id"], made["webhook-timestamp"]) == ("msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330")


def test_a_receiver_verifies_with_either_secret_while_they_change() -> None:
    for secret in (SECRET, OTHER):
        Webhook(secret).verify(BODY, headers(SECRET, OTHER))
        with pytest.raises(WebhookVerificationError):
            Webhook(secret).verify(BODY + b" ", headers(SECRET, OTHER))
    with pytest.raises(WebhookVerificationError):
        Webhook(OTHER).verify(BODY, headers(SECRET))


@given(key=st.binary(min_size=24, max_size=64), text=st.text())
def test_whatever_is_signed_the_reference_library_takes(key: bytes, text: str) -> None:
    secret = f"whsec_{base64.b64encode(key).decode()}"

    Webhook(secret).verify(text.encode(), headers(secret, body=text.encode()), json_parse=False)


def test_a_secret_without_prefix_or_padding_is_the_same() -> None:
    assert parse_signing_keys([f" {OTHER.removeprefix('whsec_').rstrip('=')}\n"]) == [bytes(range(64))]


@pytest.mark.parametrize(
    "secret",
    ["", "whsec_", "secret", "whsec_c2hvcnQ=", f"whsec_{base64.b64encode(bytes(65)).decode()}", "whsk_" + "A" * 43],
)
def test_an_unusable_secret_is_refused_without_being_shown(secret: str) -> None:
    with pytest.raises(ValueError, match=r"^the secret must be whsec_ and 24 to 64 bytes in base64$"):
        parse_signing_keys([SECRET, secret])


def test_without_a_secret_nothing_is_signed() -> None:
    with pytest.raises(ValueError, match="no secret"):
        parse_signing_keys([])
