"""docs/metrics.md says of every metric what its role really exposes, every name follows the conventions, the names that
others build on are there, and alerts and dashboards name nothing else."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from prometheus_client import CollectorRegistry, ProcessCollector

from ops.exporter.exporter_metrics import StoreCollector
from ops.exporter.store_snapshot import Snapshot
from triggers.change_stream.stream_metrics import StreamMetrics
from triggers.gateway.gateway_metrics import GatewayMetrics
from triggers.schedule.schedule_metrics import ScheduleMetrics
from workers.process.worker_metrics import WorkerMetrics
from workers.reconciler.reconcile_metrics import ReconcileMetrics

ROOT = Path(__file__).parents[2]
TABLE = ROOT / "docs" / "metrics.md"
WATCHING = [
    path
    for folder in ("ops/alerts", "ops/dashboards", "tests/tools/alert_rules")
    for path in sorted((ROOT / folder).rglob("*"))
    if path.suffix in (".yaml", ".yml", ".json", ".jsonnet", ".libsonnet")
]
# What was promised, by name and by who serves it. Names may be added to a role, and labels to a name.
PROMISED = {
    "worker": "run_duration_seconds run_queue_seconds model_call_seconds tool_call_seconds tool_errors_total"
    " handoffs_total turns_total lease_lost_total",
    "scheduler": "schedule_lag_seconds schedule_misfires_total schedule_next_fire_timestamp_seconds"
    " schedule_skips_total reclaimed_total republished_total",
    "watcher": "stream_lag_seconds stream_state stream_token_age_seconds stream_oplog_window_seconds stream_gaps_total",
    "gateway": "webhook_requests_total webhook_seconds duplicates_dropped_total",
    "exporter": "runs_total runs_in_progress runs_queued oldest_queued_age_seconds runs_parked input_tokens_total"
    " output_tokens_total cached_input_tokens_total reasoning_tokens_total cost_usd_total agent_input_tokens_total"
    " agent_output_tokens_total model_calls_total usage_missing_total budget_limit budget_used"
    " budget_rejections_total",
}
OF_USAGE = frozenset({"app", "workflow", "model", "provider"})
PROMISED_LABELS = {
    "runs_total": {"app", "workflow", "trigger", "outcome"},
    "runs_queued": {"hold"},
    **dict.fromkeys(("input_tokens_total", "output_tokens_total", "cost_usd_total"), OF_USAGE),
    **dict.fromkeys(("cached_input_tokens_total", "reasoning_tokens_total"), OF_USAGE),
    "agent_input_tokens_total": {"workflow", "agent"},
    "agent_output_tokens_total": {"workflow", "agent"},
    "model_calls_total": {*OF_USAGE, "ok"},
    "usage_missing_total": {*OF_USAGE, "ok"},
    "budget_limit": {"app", "window", "unit"},
    "budget_used": {"app", "window", "unit"},
    "budget_rejections_total": {"app", "window", "unit"},
}


class Row(NamedTuple):
    name: str
    kind: str
    labels: str
    role: str
    meaning: str

    def __str__(self) -> str:
        return f"| `{self.name}` | {self.kind} | {self.labels} | {self.role} | {self.meaning} |"


def registries() -> Iterator[tuple[str, CollectorRegistry]]:
    worker, scheduler, watcher, exporter = (WorkerMetrics().registry, *(CollectorRegistry() for _ in range(3)))
    ScheduleMetrics(scheduler)
    ReconcileMetrics(scheduler)
    StreamMetrics(watcher)
    store = StoreCollector()
    store.publish(Snapshot(), duration_s=0)
    exporter.register(store)
    yield from {"worker": worker, "scheduler": scheduler, "watcher": watcher, "exporter": exporter}.items()
    yield "gateway", GatewayMetrics().registry


def exposed_rows() -> Iterator[Row]:
    for role, registry in registries():
        for collector in registry._collector_to_names:  # metrics without samples have no public list of their labels
            if isinstance(collector, ProcessCollector):
                continue  # the standard process_* metrics, where the system has them
            families: list[Any] = list(collector.collect()) if isinstance(collector, StoreCollector) else [collector]
            for family in families:
                yield row_of(family, role)


def row_of(family: Any, role: str) -> Row:
    in_store = hasattr(family, "samples")
    name, kind = (family.name, family.type) if in_store else (family._name, family._type)
    labels = ", ".join(f"`{label}`" for label in family._labelnames)
    meaning = family.documentation if in_store else family._documentation
    return Row(f"{name}_total" if kind == "counter" else name, kind, labels, role, meaning)


def test_the_table_lists_what_is_exposed() -> None:
    lines = TABLE.read_text(encoding="utf-8").splitlines()

    written = {line for line in lines if line.startswith("| `unattended_")}

    rows = {str(row) for row in exposed_rows()}
    assert written == rows, "\n".join(["docs/metrics.md lacks or has too much:", *sorted(written ^ rows)])


@pytest.mark.parametrize("role", PROMISED)
def test_what_others_build_on_is_served(role: str) -> None:
    served = {row.name.removeprefix("unattended_"): row for row in exposed_rows() if row.role == role}

    assert set(PROMISED[role].split()) <= served.keys()
    for name, labels in PROMISED_LABELS.items():
        if name in PROMISED[role].split():
            assert labels <= set(re.findall(r"`(\w+)`", served[name].labels)), name


def test_only_the_exporter_names_apps() -> None:
    assert {row.role for row in exposed_rows() if "`app`" in row.labels} == {"exporter"}


@pytest.mark.parametrize("path", WATCHING, ids=lambda path: str(path.relative_to(ROOT)))
def test_alerts_and_dashboards_name_metrics_that_exist(path: Path) -> None:
    of_histograms = ("", "_bucket", "_sum", "_count", "_created")
    known = {
        row.name + part for row in exposed_rows() for part in (of_histograms if row.kind == "histogram" else ("",))
    }
    known |= {row.name.removesuffix("_total") + "_created" for row in exposed_rows() if row.kind == "counter"}

    named = set(re.findall(r"\bunattended_[a-z_]+\b", documented_alternatives(path.read_text(encoding="utf-8"))))

    assert named - known == set()


def documented_alternatives(text: str) -> str:
    """`one_(a|b)_total` as `one_a_total one_b_total`."""
    return re.sub(
        r"(\w+_)\(([\w|]+)\)(\w*)",
        lambda match: " ".join(match[1] + each + match[3] for each in match[2].split("|")),
        text,
    )


@pytest.mark.parametrize("row", list(exposed_rows()), ids=lambda row: f"{row.role}-{row.name}")
def test_a_name_ends_with_its_unit_and_kind(row: Row) -> None:
    assert row.name.startswith("unattended_")
    assert row.name.endswith("_total") == (row.kind == "counter")
    assert row.kind != "histogram" or row.name.endswith("_seconds")
    assert row.meaning
    assert not {"`run`", "`run_id`", "`user`", "`chat`", "`url`", "`host`", "`error`"} & set(row.labels.split(", "))
