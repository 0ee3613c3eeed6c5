"""The judge of the totals: plain sums over the ledger's rows, against everything that is derived from them."""

from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import httpx
from prometheus_client.parser import text_string_to_metric_families
from pymongo.asynchronous.client_session import AsyncClientSession

from accounting.infra.snapshot_read import snapshot_read
from accounting.ledger.ledger_rows import NOT_OPEN
from accounting.totals.row_sums import HOURS, LABELS, SUMMED, TOKENS, TOTALS
from accounting.totals.totals_rebuild import find_differences, rebuild
from accounting.totals.usage_query import (
    EVERYTHING,
    GROUPS,
    Database,
    totals_in_snapshot,
    totals_pipeline,
    usage_totals,
)
from accounting.usage import UsageTotals
from workers.setting_values import Address

Row = Mapping[str, Any]
Sums = dict[tuple[Any, ...], Counter[str]]
Series = Mapping[tuple[str, frozenset[tuple[str, str]]], float]

OF_A_MODEL = ("app_id", "workflow", "model", "provider")
# What an exporter shows: by which labels, and which sum.
METRICS: Mapping[str, tuple[Sequence[str], str]] = {
    **{name: (OF_A_MODEL, name) for name in TOKENS},
    "cost_usd": (OF_A_MODEL, "cost_nano_usd"),
    "model_calls": ((*OF_A_MODEL, "ok"), "calls"),
    "usage_missing": ((*OF_A_MODEL, "ok"), "missing"),
    "usage_estimated": (("app_id", "model", "provider"), "estimated"),
    "agent_input_tokens": (("workflow", "agent"), "input_tokens"),
    "agent_output_tokens": (("workflow", "agent"), "output_tokens"),
}


def plain_sums(rows: Iterable[Row], keys: Sequence[str]) -> Sums:
    """Of rows that are closed."""
    sums: Sums = defaultdict(Counter)
    for row in rows:
        labels = {**row, "day": row["at"].strftime("%Y-%m-%d"), "hour": row["at"].strftime("%Y-%m-%dT%H:00Z")}
        missing = row["status"] == "missing"
        sums[tuple(labels[key] for key in keys)].update(
            calls=1,
            missing=missing,
            estimated=row["status"] == "estimated",
            unpriced=row["cost_nano_usd"] is None and not missing,
            cost_nano_usd=row["cost_nano_usd"] or 0,
            **{name: row[name] for name in TOKENS},
        )
    return {key: +counts for key, counts in sums.items()}


def sums_of_totals(totals: Iterable[UsageTotals], keys: Sequence[str]) -> Sums:
    return {tuple(each.key[key] for key in keys): +Counter(_sums_of(each)) for each in totals}


def _sums_of(totals: UsageTotals) -> dict[str, int]:
    return {name: getattr(totals, name) for name in SUMMED}


async def totals_faults(database: Database) -> list[str]:
    """When all rows are closed and added."""
    rows = await database["usage"].find().to_list(None)
    faults = [f"not added: {row['_id']}" for row in rows if "rollup" in row]
    for keys in ([], *([key] for key in GROUPS), [*LABELS], [*LABELS, "hour"]):
        found, right = sums_of_totals(await usage_totals(database, keys), keys), plain_sums(rows, keys)
        faults += [f"totals by {keys}: {each}" for each in _differing(found, right)]
    faults += [f"a total is wrong: {each}" for each in await find_differences(database)]
    faults += await _rebuilt(database)
    return faults + [fault async for fault in _runs(database, plain_sums(rows, ["run_id"]))]


async def _rebuilt(database: Database) -> list[str]:
    kept = await _sums_kept(database)
    changed = await rebuild(database)
    for name in (HOURS, TOTALS):
        await database[name].delete_many({})
    await rebuild(database)
    made_anew = await _sums_kept(database)
    return ["a rebuild changes totals"] if changed or made_anew != kept else []


async def _sums_kept(database: Database) -> Sequence[Row]:
    without = {"seq": 0}  # says when it was written
    return [row for name in (HOURS, TOTALS) for row in await database[name].find({}, without).sort("_id").to_list(None)]


async def _runs(database: Database, by_run: Sums) -> AsyncIterator[str]:
    """What runs say that they have used."""
    async for run in database["runs"].find():
        sums: dict[str, Any] = {**by_run.get((run["_id"],), {})}
        right = UsageTotals(**sums).as_json()
        if run["usage"] != right:
            yield f"{run['_id']} ({run['state']}) says {run['usage']}, its rows {right}"


async def faults_of_this_moment(database: Database) -> list[str]:
    """While calls are made and rows are added: totals and a plain sum, as of one moment."""
    return await snapshot_read(database, partial(_compare, database))


async def _compare(database: Database, session: AsyncClientSession) -> list[str]:
    closed = totals_pipeline(LABELS, {"rollup": NOT_OPEN})
    rows = [row async for row in await database["usage"].aggregate(closed, session=session)]
    right = {tuple(row["_id"][key] for key in LABELS): +Counter({name: row[name] for name in SUMMED}) for row in rows}
    found = sums_of_totals(await totals_in_snapshot(database, LABELS, EVERYTHING, session), LABELS)
    return [] if found == right else [f"totals of this moment: {_differing(found, right)}"]


def _differing(one: Mapping[Any, Any], other: Mapping[Any, Any]) -> Sequence[Any]:
    keys = [key for key in {*one, *other} if one.get(key) != other.get(key)]
    return [(key, one.get(key), other.get(key)) for key in keys]


class Scraper:
    """Of one exporter. It is asked often, and what it shows is read when it is new."""

    def __init__(self, address: Address) -> None:
        self._client = httpx.AsyncClient(base_url=f"http://{address}", verify=False)  # noqa: S501 -- there is no TLS
        self._text = ""
        self._series: Series = {}

    async def scrape(self) -> Series:
        """Nothing until it has begun."""
        try:
            text = (await self._client.get("/metrics")).text
        except httpx.TransportError:
            return self._series
        if text != self._text:
            samples = (sample for family in text_string_to_metric_families(text) for sample in family.samples)
            self._series = {(sample.name, frozenset(sample.labels.items())): sample.value for sample in samples}
            self._text = text
        return self._series

    async def close(self) -> None:
        await self._client.aclose()


def metrics_of(rows: Iterable[Row]) -> Series:
    """What an exporter has to show of usage, in whole units: calls, tokens, nano-dollars. Without what is 0."""
    rows = [*rows]
    return {
        _series(name, keys, values): counts[summed]
        for name, (keys, summed) in METRICS.items()
        for values, counts in plain_sums(rows, keys).items()
        if counts[summed]
    }


def _series(name: str, keys: Iterable[str], values: Iterable[Any]) -> tuple[str, frozenset[tuple[str, str]]]:
    shown_as = {"app_id": "app", True: "true", False: "false"}
    labels = ((shown_as.get(key, key), shown_as.get(value, value)) for key, value in zip(keys, values, strict=True))
    return f"unattended_{name}_total", frozenset(labels)


def usage_series(series: Series) -> Series:
    """Of what an exporter shows, the same."""
    units = {f"unattended_{name}_total": 1e9 if name == "cost_usd" else 1 for name in METRICS}
    return {key: round(value * units[key[0]]) for key, value in series.items() if value and key[0] in units}


def falling_series(before: Series, after: Series) -> list[str]:
    """Counters that went backwards, or away."""
    return [
        f"{name} {sorted(labels)} fell from {value} to {after.get((name, labels))}"
        for (name, labels), value in before.items()
        if name.endswith("_total") and after.get((name, labels), -1) < value
    ]
