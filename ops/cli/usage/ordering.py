"""The order of a bill: what costs most comes first, time goes on, and what is too much becomes one line."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Literal

from ops.cli.usage.keys import FIELDS, TIMES

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
    by_cost: bool


def bill_of(found: "Sequence[UsageTotals]", names: Sequence[str], *, sort: Sort | None, limit: int | None) -> Bill:
    """`sort` None: names by cost, times one after another."""
    by_cost = sort != "tokens" and any(row.cost_nano_usd for row in found)
    rows = _ordered(found, names, sort=sort, by_cost=by_cost)
    most = len(rows) if limit is None else limit
    if sort in (None, "name") and names[0] in TIMES:  # the newest of them are wanted
        first = max(len(rows) - most, 0)
        return Bill(names, rows[first:], rows[:first], by_cost)
    return Bill(names, rows[:most], rows[most:], by_cost)


def summed(rows: "Sequence[UsageTotals]") -> "UsageTotals":
    from accounting.usage import UsageTotals

    names = [each.name for each in fields(UsageTotals) if each.name != "key"]
    return UsageTotals(**{name: sum(getattr(row, name) for row in rows) for name in names})


def tokens_of(row: "UsageTotals") -> int:
    return row.input_tokens + row.output_tokens


def _ordered(
    found: "Sequence[UsageTotals]", names: Sequence[str], *, sort: Sort | None, by_cost: bool
) -> "list[UsageTotals]":
    """Of groups inside of groups the outer ones stay together, and have the weight of all that is in them."""
    keys = [tuple(str(row.key[FIELDS[name]]) for name in names) for row in found]
    costs: Counter[tuple[str, ...]] = Counter()
    tokens: Counter[tuple[str, ...]] = Counter()
    for row, key in zip(found, keys, strict=True):
        for depth in range(1, len(key) + 1):
            costs[key[:depth]] += row.cost_nano_usd
            tokens[key[:depth]] += tokens_of(row)

    def place(key: tuple[str, ...]) -> list[tuple[Weight, str]]:
        parts = [key[: depth + 1] for depth in range(len(key))]
        return [
            ((0, 0) if _as_it_is(name, sort) else (-costs[part] * by_cost, -tokens[part]), part[-1])
            for name, part in zip(names, parts, strict=True)
        ]

    places = sorted(range(len(found)), key=lambda index: place(keys[index]))
    return [found[index] for index in places]


def _as_it_is(name: str, sort: Sort | None) -> bool:
    return sort == "name" or (sort is None and name in TIMES)
