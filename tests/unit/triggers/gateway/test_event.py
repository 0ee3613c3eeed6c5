"""Events: what expressions see of a request, and what they never do."""

import pytest
from starlette.requests import Request

from triggers.gateway.trigger_request import build_event


def request(**headers: str) -> Request:
    named = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    return Request({"type": "http", "method": "POST", "headers": named, "query_string": b"a=1"})


def test_headers_and_query_stand_beside_the_body() -> None:
    event = build_event({"n": 1, "_request": "mine"}, request(user_agent="hook/1", x_event="opened"))

    assert event == {
        "n": 1,
        "_request": {"headers": {"user-agent": "hook/1", "x-event": "opened"}, "query": {"a": "1"}},
    }


def test_what_is_no_object_stays_as_it_is() -> None:
    assert build_event([1], request()) == [1]


CREDENTIALS = (
    *("authorization", "proxy_authorization", "x_forwarded_authorization", "cookie", "x_api_key", "apikey"),
    *("x_hub_signature_256", "webhook_signature", "x_gitlab_token", "x_client_secret", "x_password", "x_credentials"),
)


@pytest.mark.parametrize("header", CREDENTIALS)
def test_a_header_that_may_hold_a_credential_is_left_out(header: str) -> None:
    assert build_event({}, request(**{header: "s3cret"}))["_request"]["headers"] == {}


def test_the_secrets_header_is_left_out_of_the_event_whatever_its_name() -> None:
    event = build_event({}, request(x_shop_says="s3cret", x_event="paid"), secret_header="x-shop-says")

    assert event["_request"]["headers"] == {"x-event": "paid"}
