"""Metric families built from counts by label."""

from collections.abc import Mapping, Sequence

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

Labels = tuple[str, ...]
Counts = Mapping[Labels, float]


class MonotonicCounters:
    """Counters that never fall while this process lives.

    The store's numbers may fall: a late answer corrects a call that was closed as missing, and an operator may restore
    an older backup. Prometheus would take a smaller number for a reset, and count all of it again.
    """

    def __init__(self) -> None:
        self._shown: dict[str, dict[Labels, float]] = {}

    def family(self, name: str, text: str, labels: Sequence[str], counts: Counts) -> Metric:
        shown = self._shown.setdefault(name, {})
        family = CounterMetricFamily(name, text, labels=labels)
        for values, count in counts.items():
            if count > shown.get(values, -1):
                shown[values] = count
        for values, count in sorted(shown.items()):
            family.add_metric(values, count)
        return family


def gauge_family(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(name, text, value=value)


def labelled_gauge_family(name: str, text: str, labels: Sequence[str], counts: Counts) -> Metric:
    family = GaugeMetricFamily(name, text, labels=labels)
    for values, count in sorted(counts.items()):
        family.add_metric(values, count)
    return family
