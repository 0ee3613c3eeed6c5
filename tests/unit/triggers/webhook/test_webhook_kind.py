"""The kind `webhook`: when it is inactive, which keys may create one, and its view."""

from datetime import UTC, datetime
from typing import Any

import pytest
from pymongo import AsyncMongoClient
from pymongo.asynchronous.database import AsyncDatabase

from triggers.register.trigger import Trigger
from triggers.trigger_kind import TriggerKind
from triggers.webhook.webhook_kind import KIND
from workers.settings import Settings
from workflows.package.trigger_specs.webhook_spec import WebhookSpec

SIGNED = {"scheme": "github", "secret": ["env:NEW", "env:OLD"]}


def webhook_spec(verify: dict[str, Any] = SIGNED, **fields: Any) -> WebhookSpec:
    return WebhookSpec.model_validate({"name": "paid", "apps": ["acme"], "verify": verify, **fields})


def why_inactive(spec: WebhookSpec, *, app_id: str | None = None, **settings: Any) -> str | None:
    kind: TriggerKind = KIND
    return kind.inactive_reason(Trigger("Orders", spec, app_id), Settings(**settings))


def test_a_webhook_whose_secrets_are_all_missing_is_inactive() -> None:
    assert "env:NEW" in (why_inactive(webhook_spec()) or "")
    assert why_inactive(webhook_spec(), environ={"OLD": "x"}) is None


def test_a_webhook_that_no_app_may_call_is_inactive() -> None:
    assert "no app may call it" in (why_inactive(webhook_spec(apps=[]), environ={"OLD": "x"}) or "")
    assert why_inactive(webhook_spec(apps=[], app_id="=tenant"), environ={"OLD": "x"}) is None
    assert why_inactive(webhook_spec(apps=[]), app_id="acme", environ={"OLD": "x"}) is None


def test_an_unverified_webhook_is_inactive_in_production_unless_forced() -> None:
    once, twice = webhook_spec({"scheme": "none"}), webhook_spec({"scheme": "none", "even_in_production": True})
    assert why_inactive(once) is None
    assert "refused in production" in (why_inactive(once, environment="production") or "")
    assert why_inactive(twice, environment="production") is None


def test_a_key_of_one_app_names_no_secret_and_opens_nothing_in_production() -> None:
    assert KIND.app_key_refusal(webhook_spec()) is not None
    assert KIND.app_key_refusal(webhook_spec({"scheme": "none", "even_in_production": True})) is not None
    assert KIND.app_key_refusal(webhook_spec({"scheme": "none"})) is None


async def description(spec: WebhookSpec, *, app_id: str | None = None, **environ: str) -> dict[str, Any]:
    nowhere: AsyncDatabase[dict[str, Any]] = AsyncMongoClient("mongodb://127.0.0.1:9", connect=False)["none"]
    return dict(await KIND.describe(Trigger("Orders", spec, app_id), None, nowhere, Settings(environ=environ)))


async def test_the_description_names_addresses_and_secrets_without_values() -> None:
    told = await description(webhook_spec(apps=["acme", "globex"]), OLD="the secret itself")

    assert told["addresses"] == {"acme": "/hooks/acme/Orders/paid", "globex": "/hooks/globex/Orders/paid"}
    assert [each["secret"] for each in told["secrets"] if each["problem"] is None] == ["env:OLD"]
    assert "the secret itself" not in str(told)


async def test_the_description_has_a_placeholder_for_an_app_of_the_event() -> None:
    told = await description(webhook_spec(apps=[], app_id="=tenant"))
    assert told["addresses"] == {"{app}": "/hooks/{app}/Orders/paid"}


@pytest.mark.parametrize(
    ("verify", "first"),
    [
        ({"scheme": "standard", "secret": "env:K"}, "the header webhook-id"),
        ({"scheme": "github", "secret": "env:K"}, "the header X-GitHub-Delivery"),
        ({"scheme": "stripe", "secret": "env:K"}, "the body's id"),
        ({"scheme": "slack", "secret": "env:K"}, "the body's event_id"),
        ({"scheme": "hmac", "secret": "env:K", "header": "X-S", "id_header": "X-Id"}, "the header X-Id"),
        ({"scheme": "hmac", "secret": "env:K", "header": "X-S"}, "dedupe: =id"),
        ({"scheme": "bearer", "secret": "env:K"}, "dedupe: =id"),
    ],
)
async def test_the_description_shows_what_identifies_a_delivery(verify: dict[str, Any], first: str) -> None:
    told = await description(webhook_spec(verify, dedupe="=id"))
    assert told["deduplicated_by"].split(", else ")[0] == first


def test_by_hand_the_given_event_stands_for_the_body() -> None:
    trigger = Trigger("Orders", webhook_spec(when="action == 'opened'", input={"n": "=number"}))

    first, second = (KIND.manual_event(trigger, "acme", {"number": 7}, datetime.now(UTC)) for _ in range(2))

    assert first.data == {"number": 7, "_request": {"headers": {}, "query": {}}}
    assert first.id.startswith("manual:")
    assert first.id != second.id
