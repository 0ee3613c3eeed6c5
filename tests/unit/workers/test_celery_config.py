"""The Celery settings that our guarantees depend on, and the wake-up message."""

from datetime import UTC, datetime
from typing import Any

import pytest

from workers.celery import SettingsLoader, app, celery_config
from workers.settings import load_settings
from workers.store.run import RunRequest, TriggerEvent, new_run_id
from workers.store.run_document import as_json, run_document
from workers.store.storable import NotStorableError

CONFIG = celery_config(
    load_settings({"UNATTENDED_REDIS_URL": "redis://h/1", "UNATTENDED_QUEUE": "q", "UNATTENDED_CONCURRENCY": "7"})
)


def test_only_json_goes_over_the_wire() -> None:
    assert CONFIG["task_serializer"] == CONFIG["result_serializer"] == "json"
    assert CONFIG["accept_content"] == ["json"]


def test_no_result_is_kept() -> None:
    assert CONFIG["task_ignore_result"] is True
    assert "result_backend" not in CONFIG


def test_a_worker_holds_no_message_it_does_not_work_on() -> None:
    assert CONFIG["worker_disable_prefetch"] is True
    assert CONFIG["task_acks_late"] is False


def test_a_publish_neither_retries_nor_waits_without_end() -> None:
    assert CONFIG["task_publish_retry"] is False
    assert 0 < CONFIG["broker_transport_options"]["socket_timeout"] <= 10
    assert 0 < CONFIG["broker_transport_options"]["socket_connect_timeout"] <= 10


def test_settings_reach_celery() -> None:
    assert (CONFIG["broker_url"], CONFIG["task_default_queue"], CONFIG["worker_concurrency"]) == (
        "redis://h:6379/1",
        "q",
        7,
    )


def test_every_name_is_one_that_celery_knows() -> None:
    from celery.app.defaults import NAMESPACES, flatten

    assert set(CONFIG) <= set(dict(flatten(NAMESPACES)))


def test_the_app_is_found_without_its_settings_being_read() -> None:
    loader: object = app.loader_cls
    assert loader is SettingsLoader


def request(**fields: Any) -> RunRequest:
    event = TriggerEvent("schedule", "nightly", "2026-03-01T02:30:00Z", datetime(2026, 3, 1, tzinfo=UTC))
    return RunRequest(app_id="acme", workflow="Digest", trigger=event, **fields)


def document(**fields: Any) -> dict[str, Any]:
    from datetime import timedelta

    return run_document(request(**fields), now=datetime(2026, 3, 1, tzinfo=UTC), republish_after=timedelta(seconds=15))


def test_a_dedupe_key_begins_with_workflow_and_trigger() -> None:
    assert request().dedupe_key == "Digest/nightly/schedule/acme/2026-03-01T02:30:00Z"


def test_no_two_apps_share_a_dedupe_key() -> None:
    event = TriggerEvent("webhook", "hook", "eu/7", fired_at=datetime(2026, 3, 1, tzinfo=UTC))
    other = TriggerEvent("webhook", "hook", "7", fired_at=datetime(2026, 3, 1, tzinfo=UTC))
    assert RunRequest("acme", "D", event).dedupe_key != RunRequest("acme/eu", "D", other).dedupe_key


def test_run_ids_are_unlike_and_sort_by_time() -> None:
    ids = [new_run_id() for _ in range(50)]
    assert len(set(ids)) == 50
    assert all(run_id.startswith("run_") and len(run_id) == 30 for run_id in ids)


def test_a_new_run_is_queued_and_due_again_after_the_pause() -> None:
    new = document(input={"a": 1})

    assert (new["state"], new["attempt"], new["turn"], new["lease"]["token"], new["hold"]) == ("queued", 1, 0, 0, None)
    assert new["chat_id"] == new["correlation_id"] == new["_id"]
    assert new["wake_at"] == datetime(2026, 3, 1, 0, 0, 15, tzinfo=UTC)


@pytest.mark.parametrize("given", [{"input": {"a": {"$ne": 1}}}, {"message": "\ud800"}, {"input": {"n": 2**64}}])
def test_a_run_that_cannot_be_kept_is_never_made(given: dict[str, Any]) -> None:
    with pytest.raises(NotStorableError):
        document(**given)


def test_a_run_as_json_has_its_id_by_name_and_no_inner_fields() -> None:
    shown = as_json(document())

    assert next(iter(shown)) == "run_id"
    assert shown["dedupe_key"] == request().dedupe_key
    assert not {"_id", "wake_at", "wakes", "worker_losses"} & set(shown)
