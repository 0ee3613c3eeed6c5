"""docs/metrics.md says of every metric what its role really exposes, and every name follows the conventions."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from prometheus_client import CollectorRegistry, ProcessCollector

from accounting.usage import UsageTotals
from ops.exporter.metrics import StoreCollector
from ops.exporter.snapshot import Snapshot
from triggers.change_stream.metrics import StreamMetrics
from triggers.gateway.metrics import GatewayMetrics
from triggers.schedule.metrics import ScheduleMetrics
from workers.process.worker_metrics import WorkerMetrics
from workers.reconciling.metrics import ReconcileMetrics

TABLE = Path(__file__).parents[2] / "docs" / "metrics.md"


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
    store = StoreCollector(max_app_labels=1)
    row = UsageTotals(key=dict.fromkeys(("app_id", "workflow", "model", "provider", "ok", "agent"), "x"))
    store.show(Snapshot(runs=[], usage=[row], in_progress=0, queued={}, oldest_queued_age_s=0.0, parked=0))
    exporter.register(store)
    yield from {"worker": worker, "scheduler": scheduler, "watcher": watcher, "exporter": exporter}.items()
    yield "gateway", GatewayMetrics().registry


def exposed() -> Iterator[Row]:
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


def test_the_table_says_what_is_exposed() -> None:
    lines = TABLE.read_text(encoding="utf-8").splitlines()

    written = {line for line in lines if line.startswith("| `unattended_")}

    rows = {str(row) for row in exposed()}
    assert written == rows, "\n".join(["docs/metrics.md lacks or has too much:", *sorted(written ^ rows)])


@pytest.mark.parametrize("row", list(exposed()), ids=lambda row: f"{row.role}-{row.name}")
def test_a_name_says_its_unit_and_kind(row: Row) -> None:
    assert row.name.startswith("unattended_")
    assert row.name.endswith("_total") == (row.kind == "counter")
    assert row.kind != "histogram" or row.name.endswith("_seconds")
    assert row.meaning
    assert not {"`run`", "`run_id`", "`user`", "`chat`", "`url`", "`host`", "`error`"} & set(row.labels.split(", "))
