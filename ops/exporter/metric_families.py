"""Families of metrics, out of counts by label."""

from collections.abc import Mapping, Sequence

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

Labels = tuple[str, ...]
Counts = Mapping[Labels, float]


class MonotonicCounters:
    """What was shown of a counter never falls while this process lives.

    The store's numbers may fall: a call that was closed as missing is corrected when its answer arrives after all, and
    somebody may put back an older store. Prometheus would take the smaller number for a new beginning, and add all of
    it once more.
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
