"""The report of `unattended usage`: totals by group, sorted, with a limit."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Literal

import click
from typing_extensions import override

if TYPE_CHECKING:
    from accounting.usage import UsageTotals

Sort = Literal["cost", "tokens", "name"]
Weight = tuple[int, int]

# the name that a user writes, and the field of the totals
FIELDS: Mapping[str, str] = {
    "app": "app_id",
    "workflow": "workflow",
    "model": "model",
    "agent": "agent",
    "provider": "provider",
    "trigger": "trigger_type",
    "day": "day",
    "hour": "hour",
}
TIME_KEYS = frozenset({"day", "hour"})  # in UTC
MAX_KEYS = 3


class GroupByType(click.ParamType[tuple[str, ...]]):
    """Parses one key, or several with commas for groups within groups."""

    name = "by"

    @override
    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:
        return "KEY[,KEY]"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, ...]:
        if isinstance(value, tuple):
            return value
        names = tuple(dict.fromkeys(name.strip() for name in str(value).split(",")))
        unknown = [name for name in names if name not in FIELDS]
        if unknown:
            self.fail(f"{unknown[0]!r} is none of {', '.join(FIELDS)}; several with commas: app,model", param, ctx)
        if len(names) > MAX_KEYS:
            self.fail(f"{len(names)} keys are too many; name at most {MAX_KEYS}", param, ctx)
        return names


def field_names(names: Sequence[str]) -> list[str]:
    return [FIELDS[name] for name in names]


@dataclass(frozen=True, slots=True)
class UsageReport:
    """`rest` is what the limit cut off; bars and shares measure cost if `is_by_cost`, else tokens."""

    names: Sequence[str]
    rows: "Sequence[UsageTotals]"
    rest: "Sequence[UsageTotals]"
    is_by_cost: bool


def make_usage_report(
    totals: "Sequence[UsageTotals]", names: Sequence[str], *, sort: Sort | None, limit: int | None
) -> UsageReport:
    """Sort names by cost and times in order, unless `sort` is given."""
    is_by_cost = sort != "tokens" and any(row.cost_nano_usd for row in totals)
    rows = _order_rows(totals, names, sort=sort, is_by_cost=is_by_cost)
    max_rows = len(rows) if limit is None else limit
    if sort in (None, "name") and names[0] in TIME_KEYS:  # a limit keeps the newest times
        first = max(len(rows) - max_rows, 0)
        return UsageReport(names, rows[first:], rows[:first], is_by_cost)
    return UsageReport(names, rows[:max_rows], rows[max_rows:], is_by_cost)


def sum_totals(rows: "Sequence[UsageTotals]") -> "UsageTotals":
    from accounting.usage import UsageTotals

    names = [field.name for field in fields(UsageTotals) if field.name != "key"]
    return UsageTotals(**{name: sum(getattr(row, name) for row in rows) for name in names})


def total_tokens(row: "UsageTotals") -> int:
    return row.input_tokens + row.output_tokens


def _order_rows(
    totals: "Sequence[UsageTotals]", names: Sequence[str], *, sort: Sort | None, is_by_cost: bool
) -> "list[UsageTotals]":
    """Keep the rows of an outer group together, ordered by the sum of the group."""
    keys = [tuple(str(row.key[FIELDS[name]]) for name in names) for row in totals]
    costs: Counter[tuple[str, ...]] = Counter()
    tokens: Counter[tuple[str, ...]] = Counter()
    for row, key in zip(totals, keys, strict=True):
        for depth in range(1, len(key) + 1):
            costs[key[:depth]] += row.cost_nano_usd
            tokens[key[:depth]] += total_tokens(row)

    def sort_key(key: tuple[str, ...]) -> list[tuple[Weight, str]]:
        parts = [key[: depth + 1] for depth in range(len(key))]
        return [
            ((0, 0) if _is_by_name(name, sort) else (-costs[part] * is_by_cost, -tokens[part]), part[-1])
            for name, part in zip(names, parts, strict=True)
        ]

    order = sorted(range(len(totals)), key=lambda index: sort_key(keys[index]))
    return [totals[index] for index in order]


def _is_by_name(name: str, sort: Sort | None) -> bool:
    return sort == "name" or (sort is None and name in TIME_KEYS)
