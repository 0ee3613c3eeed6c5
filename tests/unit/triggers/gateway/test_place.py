"""Who may call which trigger."""

from typing import Any

import pytest

from triggers.gateway.http_problems import ProblemError
from triggers.gateway.trigger_request import TriggerAddress, check_app
from triggers.register.precedence import is_for_app
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
