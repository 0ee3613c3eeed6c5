"""The exporter's metrics: rows of the store are finer than they are, and are added up."""

from accounting.usage import UsageTotals
from ops.exporter.metrics import StoreCollector
from ops.exporter.snapshot import Snapshot


def row(calls: int, *, app: str = "acme", agent: str = "A", ok: bool = True, missing: int = 0) -> UsageTotals:
    key = {"app_id": app, "workflow": "W", "model": "m", "provider": "p", "ok": ok, "agent": agent}
    return UsageTotals(
        calls=calls, input_tokens=10 * calls, output_tokens=calls, cost_nano_usd=10**9 * calls, missing=missing, key=key
    )


def shown(*usage: UsageTotals, max_app_labels: int = 10) -> dict[tuple[str, tuple[str, ...]], float]:
    collector = StoreCollector(max_app_labels=max_app_labels)
    collector.show(Snapshot(runs=[], usage=usage, in_progress=0, queued={}, oldest_queued_age_s=0.0, parked=0))
    samples = (sample for metric in collector.collect() for sample in metric.samples)
    return {(each.name.removeprefix("unattended_"), tuple(each.labels.values())): each.value for each in samples}


def test_agents_and_failures_are_added_up_where_a_metric_does_not_name_them() -> None:
    series = shown(row(4, agent="A"), row(2, agent="B"), row(1, agent="B", ok=False))

    labels = ("acme", "W", "m", "p")
    assert series["input_tokens_total", labels] == 70
    assert series["output_tokens_total", labels] == 7
    assert series["cost_usd_total", labels] == 7
    assert series["model_calls_total", (*labels, "true")] == 6
    assert series["model_calls_total", (*labels, "false")] == 1
    assert series["agent_input_tokens_total", ("W", "A")] == 40
    assert series["agent_input_tokens_total", ("W", "B")] == 30


def test_calls_without_usage_are_counted_beside_the_calls() -> None:
    series = shown(row(4, agent="A", missing=1), row(2, agent="B", missing=2))

    assert series["usage_missing_total", ("acme", "W", "m", "p", "true")] == 3


def test_apps_beyond_the_cap_and_agents_of_all_apps_are_one_series() -> None:
    series = shown(row(4, app="a"), row(2, app="b"), row(1, app="c"), max_app_labels=1)

    assert series["input_tokens_total", ("a", "W", "m", "p")] == 40
    assert series["input_tokens_total", ("_other", "W", "m", "p")] == 30
    assert series["agent_input_tokens_total", ("W", "A")] == 70
