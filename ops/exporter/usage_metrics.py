"""Metrics of usage, summed from the totals, which are finer than any metric.

The series of an app, workflow and model begin with their first call. Counts that are mostly zero, such as cached tokens
or calls without usage, begin with their first count: zeros would double the size of a scrape of many apps.
"""

from collections.abc import Iterator, Mapping, Sequence
from operator import attrgetter
from typing import NamedTuple

from prometheus_client.core import Metric

from accounting.app_labels import AppLabels
from accounting.usage import UsageTotals
from ops.exporter.metric_families import Labels, MonotonicCounters

Sums = dict[Labels, list[int]]


class MetricKind(NamedTuple):
    """A metric and the field of the totals that it shows, also at zero if `is_always_shown`."""

    name: str
    text: str
    field: str
    is_always_shown: bool = False
    divisor: float = 1


class MetricGroup(NamedTuple):
    """Metrics with the same labels; `keys` are the names of these labels in the totals."""

    labels: Sequence[str]
    keys: Sequence[str]
    kinds: Sequence[MetricKind]


GROUPS = (
    MetricGroup(
        ("app", "workflow", "model", "provider"),
        ("app_id", "workflow", "model", "provider"),
        (
            MetricKind(
                "unattended_input_tokens",
                "Input tokens, cached ones and cache writes included",
                "input_tokens",
                is_always_shown=True,
            ),
            MetricKind("unattended_cached_input_tokens", "Input tokens read from a cache", "cached_input_tokens"),
            MetricKind("unattended_cache_write_tokens", "Input tokens written to a cache", "cache_write_tokens"),
            MetricKind(
                "unattended_output_tokens", "Output tokens, reasoning included", "output_tokens", is_always_shown=True
            ),
            MetricKind("unattended_reasoning_tokens", "Output tokens spent on reasoning", "reasoning_tokens"),
            MetricKind(
                "unattended_cost_usd",
                "Cost by the price table; unpriced calls add nothing",
                "cost_nano_usd",
                is_always_shown=True,
                divisor=1e9,
            ),
        ),
    ),
    MetricGroup(
        ("app", "workflow", "model", "provider", "ok"),
        ("app_id", "workflow", "model", "provider", "ok"),
        (
            MetricKind("unattended_model_calls", "Model calls, failed ones included", "calls", is_always_shown=True),
            MetricKind("unattended_usage_missing", "Model calls that came without usage", "missing"),
        ),
    ),
    MetricGroup(
        ("app", "model", "provider"),
        ("app_id", "model", "provider"),
        (
            MetricKind("unattended_usage_unpriced", "Model calls with usage, but without a known price", "unpriced"),
            MetricKind("unattended_usage_estimated", "Model calls whose tokens are an estimate", "estimated"),
        ),
    ),
    MetricGroup(
        ("workflow", "agent"),
        ("workflow", "agent"),
        (
            MetricKind("unattended_agent_input_tokens", "Input tokens by agent", "input_tokens", is_always_shown=True),
            MetricKind(
                "unattended_agent_output_tokens", "Output tokens by agent", "output_tokens", is_always_shown=True
            ),
        ),
    ),
)


def usage_families(rows: Sequence[UsageTotals], apps: AppLabels, counters: MonotonicCounters) -> Iterator[Metric]:
    for group in GROUPS:
        sums = sum_by_labels(rows, group, apps)
        for index, kind in enumerate(group.kinds):
            counts = {
                labels: values[index] / kind.divisor if kind.divisor != 1 else values[index]
                for labels, values in sums.items()
                if kind.is_always_shown or values[index]
            }
            yield counters.family(kind.name, kind.text, group.labels, counts)


def sum_by_labels(rows: Sequence[UsageTotals], group: MetricGroup, apps: AppLabels) -> Sums:
    read = attrgetter(*[kind.field for kind in group.kinds])
    sums: Sums = {}
    for row in rows:
        labels = tuple([_label_value(key, row.key, apps) for key in group.keys])
        values = sums.get(labels)
        if values is None:
            sums[labels] = list(read(row))
        else:
            for index, value in enumerate(read(row)):
                values[index] += value
    return sums


def _label_value(name: str, key: Mapping[str, object], apps: AppLabels) -> str:
    value = key[name]
    if name == "app_id":
        return apps.label(str(value))
    return str(value).lower() if name == "ok" else str(value)
