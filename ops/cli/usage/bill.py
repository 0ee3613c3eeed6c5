"""Keys: by what calls are grouped, as a user names it and as the totals do."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Literal

import click
from typing_extensions import override

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
    """One key, or several with commas: groups inside of groups."""

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
            self.fail(f"{unknown[0]!r} is none of {', '.join(FIELDS)}; two at once: app,model", param, ctx)
        if len(names) > MAX_KEYS:
            self.fail(f"{len(names)} at once are too many to read; name at most {MAX_KEYS}", param, ctx)
        return names


def field_names(names: Sequence[str]) -> list[str]:
    return [FIELDS[name] for name in names]


if TYPE_CHECKING:
    from accounting.usage import UsageTotals

Sort = Literal["cost", "tokens", "name"]
Weight = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Bill:
    """`rest`: what a limit has cut off. `by_cost`: what bars and shares measure, else tokens."""

    names: Sequence[str]
    rows: "Sequence[UsageTotals]"
    rest: "Sequence[UsageTotals]"
    is_by_cost: bool


def make_bill(totals: "Sequence[UsageTotals]", names: Sequence[str], *, sort: Sort | None, limit: int | None) -> Bill:
    """`sort` None: names by cost, times one after another."""
    by_cost = sort != "tokens" and any(row.cost_nano_usd for row in totals)
    rows = _order_rows(totals, names, sort=sort, is_by_cost=by_cost)
    most = len(rows) if limit is None else limit
    if sort in (None, "name") and names[0] in TIME_KEYS:  # the newest of them are wanted
        first = max(len(rows) - most, 0)
        return Bill(names, rows[first:], rows[:first], by_cost)
    return Bill(names, rows[:most], rows[most:], by_cost)


def sum_totals(rows: "Sequence[UsageTotals]") -> "UsageTotals":
    from accounting.usage import UsageTotals

    names = [each.name for each in fields(UsageTotals) if each.name != "key"]
    return UsageTotals(**{name: sum(getattr(row, name) for row in rows) for name in names})


def total_tokens(row: "UsageTotals") -> int:
    return row.input_tokens + row.output_tokens


def _order_rows(
    totals: "Sequence[UsageTotals]", names: Sequence[str], *, sort: Sort | None, is_by_cost: bool
) -> "list[UsageTotals]":
    """Of groups inside of groups the outer ones stay together, and have the weight of all that is in them."""
    keys = [tuple(str(row.key[FIELDS[name]]) for name in names) for row in totals]
    costs: Counter[tuple[str, ...]] = Counter()
    tokens: Counter[tuple[str, ...]] = Counter()
    for row, key in zip(totals, keys, strict=True):
        for depth in range(1, len(key) + 1):
            costs[key[:depth]] += row.cost_nano_usd
            tokens[key[:depth]] += total_tokens(row)

    def place(key: tuple[str, ...]) -> list[tuple[Weight, str]]:
        parts = [key[: depth + 1] for depth in range(len(key))]
        return [
            ((0, 0) if _is_by_name(name, sort) else (-costs[part] * is_by_cost, -tokens[part]), part[-1])
            for name, part in zip(names, parts, strict=True)
        ]

    places = sorted(range(len(totals)), key=lambda index: place(keys[index]))
    return [totals[index] for index in places]


def _is_by_name(name: str, sort: Sort | None) -> bool:
    return sort == "name" or (sort is None and name in TIME_KEYS)
