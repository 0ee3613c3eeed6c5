"""Gateway metrics: labels from closed or capped sets."""

from triggers.capped_labels import OTHER
from triggers.gateway.gateway_metrics import MAX_RUNTIME_TRIGGER_LABELS, GatewayMetrics
from triggers.register.trigger import Trigger
from workflows.package.trigger_specs.webhook_spec import Verification, WebhookSpec

NAME = "unattended_duplicates_dropped_total"


def trigger(name: str, *, app_id: str | None = None) -> Trigger:
    spec = WebhookSpec(name=name, apps=("acme",), verify=Verification(scheme="github", secret=("env:KEY",)))
    return Trigger("Sales", spec, app_id)


def test_triggers_made_at_run_time_do_not_make_labels_without_end() -> None:
    metrics = GatewayMetrics()

    for number in range(MAX_RUNTIME_TRIGGER_LABELS + 50):
        metrics.count_duplicate(trigger(f"made-{number}", app_id="acme"))
    for _ in range(2):
        metrics.count_duplicate(trigger("made-0", app_id="globex"))
        metrics.count_duplicate(trigger("paid"))

    def dropped_count(label: str) -> float | None:
        return metrics.registry.get_sample_value(NAME, {"trigger": label})

    assert dropped_count("Sales/made-0") == 3
    assert dropped_count("Sales/paid") == 2
    assert dropped_count(OTHER) == 50
    assert dropped_count(f"Sales/made-{MAX_RUNTIME_TRIGGER_LABELS}") is None


def test_calls_are_counted_by_endpoint_and_result() -> None:
    metrics = GatewayMetrics()

    for _ in range(2):
        metrics.observe_request("webhook", "accepted", seconds=0.1)
    metrics.observe_request("form", "accepted", seconds=0.1)

    counted = metrics.registry.get_sample_value
    assert counted("unattended_webhook_requests_total", {"endpoint": "webhook", "result": "accepted"}) == 2
    assert counted("unattended_webhook_requests_total", {"endpoint": "form", "result": "accepted"}) == 1
    assert counted("unattended_webhook_seconds_count", {"endpoint": "webhook"}) == 2
