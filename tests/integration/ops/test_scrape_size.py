"""Many apps, each with three workflows on three models: a scrape stays small and complete."""

from collections import Counter

import pytest
from prometheus_client.parser import text_string_to_metric_families

from accounting.ledger.ledger_rows import INDEXES
from accounting.totals.usage_query import totals_pipeline
from ops.exporter.exporter_metrics import StoreCollector
from ops.exporter.metrics_page import render_text
from ops.exporter.store_snapshot import SnapshotReader
from tests.large_ledger import CALLS_OF_A_RUN, LedgerSize, fill
from workers.settings import Settings
from workers.store.run_store import RunStore

pytestmark = pytest.mark.integration

ROWS = 50_000
LARGEST = 1_000_000  # bytes
SHOWN = {
    "calls": "model_calls",
    **{f"{kind}_tokens": f"{kind}_tokens" for kind in ("input", "cached_input", "cache_write", "output", "reasoning")},
    **{name: f"usage_{name}" for name in ("missing", "estimated", "unpriced")},
}


async def page(store: RunStore, cap: int) -> str:
    collector = StoreCollector()
    collector.publish(await SnapshotReader(store.database, max_app_labels=cap).read(), duration_s=0.1)
    return render_text(collector.collect()).decode()


@pytest.mark.parametrize("apps", [1_000, 113], ids=["of very many apps", "with every series there can be"])
async def test_a_scrape_is_below_a_megabyte_and_adds_up_to_the_ledger(
    store: RunStore, settings: Settings, apps: int
) -> None:
    await fill(store.database, LedgerSize(ROWS, apps, workflows=3, models=3))
    await store.database["usage"].create_indexes([*INDEXES])

    text = await page(store, settings.max_app_labels)

    sums: Counter[str] = Counter()
    named: set[str] = set()
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            sums[sample.name] += int(sample.value)
            named.update(value for label, value in sample.labels.items() if label == "app")
    found = await store.database["usage"].aggregate(totals_pipeline((), {}))
    [ledger] = await found.to_list(None)
    assert len(text) < LARGEST
    assert len(named) == settings.max_app_labels + 1
    assert {name: sums[f"unattended_{metric}_total"] for name, metric in SHOWN.items()} == {
        name: ledger[name] for name in SHOWN
    }
    assert sums["unattended_runs_total"] == ROWS // CALLS_OF_A_RUN
