"""PromQL of the dashboards, for metrics of the exporter and of the other roles.

Every exporter serves the same numbers of the whole cluster, so queries take their `max`. Each process of the other
roles counts its own work, so queries take the `sum`.

Prometheus's `increase` misses the first count of a series, as it has no earlier value: a first failure, or the first
run of a new system. `increase` and `store_increase` treat a series that is new in the time range as beginning at 0.
"""

from dataclasses import dataclass

# One hour, so that a failed scrape at the start of the time range does not make an old series look new.
_BEFORE = "[1h] offset $__range"

# As in the objective `success` of ops/alerts/slo.yaml: cancelled runs do not count, stranded runs are not good.
GOOD_OUTCOMES = "completed|max_turns|no_transition"
EXCLUDED_OUTCOMES = "cancelled|budget_exhausted|workflow_failed"


@dataclass(frozen=True, slots=True)
class StoreCounter:
    """A counter of the exporter; `max` needs all of its labels."""

    name: str
    labels: tuple[str, ...]


_RUN_LABELS = ("app", "workflow", "trigger", "outcome")
_USAGE_LABELS = ("app", "workflow", "model", "provider")
_CALL_LABELS = (*_USAGE_LABELS, "ok")

RUNS = StoreCounter("unattended_runs_total", _RUN_LABELS)
STRANDED = StoreCounter("unattended_runs_stranded_total", ("app", "workflow", "trigger"))
INPUT_TOKENS = StoreCounter("unattended_input_tokens_total", _USAGE_LABELS)
CACHED_TOKENS = StoreCounter("unattended_cached_input_tokens_total", _USAGE_LABELS)
OUTPUT_TOKENS = StoreCounter("unattended_output_tokens_total", _USAGE_LABELS)
REASONING_TOKENS = StoreCounter("unattended_reasoning_tokens_total", _USAGE_LABELS)
COST = StoreCounter("unattended_cost_usd_total", _USAGE_LABELS)
MODEL_CALLS = StoreCounter("unattended_model_calls_total", _CALL_LABELS)
USAGE_MISSING = StoreCounter("unattended_usage_missing_total", _CALL_LABELS)
USAGE_ESTIMATED = StoreCounter("unattended_usage_estimated_total", ("app", "model", "provider"))
USAGE_UNPRICED = StoreCounter("unattended_usage_unpriced_total", ("app", "model", "provider"))
AGENT_INPUT_TOKENS = StoreCounter("unattended_agent_input_tokens_total", ("workflow", "agent"))
AGENT_OUTPUT_TOKENS = StoreCounter("unattended_agent_output_tokens_total", ("workflow", "agent"))
BUDGET_REJECTIONS = StoreCounter("unattended_budget_rejections_total", ("app", "workflow", "window", "unit"))


def store_rate(counter: StoreCounter, by: str = "", where: str = "") -> str:
    rate = f"max by ({', '.join(counter.labels)}) (rate({counter.name}{_selector(where)}[$__rate_interval]))"
    return f"{_sum_clause(by)} ({rate})"


def store_increase(counter: StoreCounter, by: str = "", where: str = "") -> str:
    series, max_by = f"{counter.name}{_selector(where)}", f"max by ({', '.join(counter.labels)})"
    now, before = f"{max_by} ({series})", f"{max_by} (last_over_time({series}{_BEFORE}))"
    return f"{_sum_clause(by)} (clamp_min({now} - ({before} or 0 * {now}), 0))"


def success_share(where: str) -> str:
    judged = store_increase(RUNS, where=f'{where}, outcome!~"{EXCLUDED_OUTCOMES}"')
    good = store_increase(RUNS, where=f'{where}, outcome=~"{GOOD_OUTCOMES}"')
    stranded = store_increase(STRANDED, where=where)
    return f"({good} - ({stranded} or vector(0)) or vector(0)) / ({judged} > 0)"


def rate(metric: str, by: str = "", where: str = "") -> str:
    return f"{_sum_clause(by)} (rate({metric}{_selector(where)}[$__rate_interval]))"


def increase(metric: str, by: str = "", where: str = "") -> str:
    series = f"{metric}{_selector(where)}"
    first = f"min_over_time({series}[$__range])"
    since_then = f"(increase({series}[$__range]) or 0 * {first})"
    new = f"({first} unless last_over_time({series}{_BEFORE}) or 0 * {first})"
    return f"{_sum_clause(by)} ({since_then} + {new})"


def quantile(share: float, histogram: str, by: str = "", where: str = "", *, over: str = "$__rate_interval") -> str:
    labels = f"le, {by}" if by else "le"
    return f"histogram_quantile({share}, sum by ({labels}) (rate({histogram}_bucket{_selector(where)}[{over}])))"


def _sum_clause(by: str) -> str:
    return f"sum by ({by})" if by else "sum"


def _selector(where: str) -> str:
    return f"{{{where}}}" if where else ""
