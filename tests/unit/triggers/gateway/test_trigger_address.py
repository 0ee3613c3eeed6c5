"""Trigger requests: the apps that may call a trigger, and the event of a call."""

from typing import Any

import pytest
from starlette.requests import Request

from triggers.gateway.http_problems import ProblemError
from triggers.gateway.trigger_address import TriggerAddress, build_event, check_app
from triggers.register.trigger import is_for_app
from workflows.package.trigger_specs.webhook_spec import Verification, WebhookSpec


def webhook(**fields: Any) -> WebhookSpec:
    return WebhookSpec(name="paid", verify=Verification(scheme="github", secret=("env:KEY",)), **fields)


def test_a_listed_app_may_call() -> None:
    assert is_for_app(webhook(apps=("acme", "globex")), "globex")
    assert not is_for_app(webhook(apps=("acme",)), "globex")


def test_a_literal_app_id_is_a_list_of_one() -> None:
    assert is_for_app(webhook(app_id="acme"), "acme")
    assert not is_for_app(webhook(app_id="acme"), "globex")
    assert is_for_app(webhook(app_id=42), "42")


def test_a_trigger_that_names_no_app_accepts_none() -> None:
    assert not is_for_app(webhook(), "acme")
    assert not is_for_app(webhook(), "None")


@pytest.mark.parametrize("event", [{}, {"app": "globex"}, {"app": None}, {"app": ""}, [], "acme"])
def test_an_event_that_names_another_app_is_not_found(event: object) -> None:
    with pytest.raises(ProblemError) as refused:
        check_app(webhook(app_id="=app"), TriggerAddress("acme", "Orders", "paid"), event)
    assert refused.value.status == 404


def test_an_event_that_names_the_app_in_the_address_passes() -> None:
    check_app(webhook(app_id="=app"), TriggerAddress("acme", "Orders", "paid"), {"app": "acme"})


def test_a_path_is_quoted() -> None:
    assert TriggerAddress("a/b", "Ü", "x y").path == "a%2Fb/%C3%9C/x%20y"


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
