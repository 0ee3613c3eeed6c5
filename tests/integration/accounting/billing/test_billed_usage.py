"""Billed usage equals the totals: in batches, exports and resends."""

import asyncio
import csv
import io
import json
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from accounting.billing.batch_signature import parse_signing_keys, sign_headers
from accounting.billing.billing_event import FIELDS
from accounting.billing.ledger_export import (
    count_rows,
    read_ledger_rows,
    resend_rows,
    to_csv_row,
    to_json_line,
)
from accounting.billing.outbox import Outbox
from accounting.infra.csv_lines import format_csv_line
from accounting.ledger.ledger import Ledger
from accounting.prices import Price, PriceTable
from accounting.totals.roll_up import RollUp
from accounting.totals.usage_query import UsageFilter, usage_totals
from accounting.usage import BegunCall, ModelCall, RunOwner, Tokens
from tests.integration.accounting.billing.receiver import SECRET
from tests.integration.accounting.ledger_rows import give_up_open_rows
from tests.integration.usage_rows import days, insert_usage
from workers.store.run_store import RunStore

pytestmark = pytest.mark.integration

PRICES = PriceTable((Price("openai", "gpt", Decimal(1), Decimal(2)),))
SEVERAL = [
    *days(30, app_id="acme"),
    *days(30, app_id="globex", model="unheard-of", input=7),
    *days(30, app_id="initech", workflow="=Digest", status="missing"),
]


async def roll_up(store: RunStore) -> None:
    await RollUp(store.database, outbox=Outbox(store.database), batch=50).run_pass(Counter())


async def events(store: RunStore) -> list[dict[str, Any]]:
    batches = await store.database["outbox"].find().sort([("created_at", 1), ("_id", 1)]).to_list(None)
    return [event for batch in batches for event in json.loads(batch["body"], parse_float=Decimal)["data"]["events"]]


async def sums_of_totals(store: RunStore) -> dict[str, tuple[int, int, int]]:
    """Sums by app: calls, tokens, nano-dollars."""
    return {
        usage_total.key["app_id"]: (
            usage_total.calls,
            usage_total.input_tokens + usage_total.output_tokens,
            usage_total.cost_nano_usd,
        )
        for usage_total in await usage_totals(store.database, ["app_id"])
    }


def sums_of_events(events: Sequence[Mapping[str, Any]]) -> dict[str, tuple[int, int, int]]:
    sums: dict[str, list[int]] = {}
    for event in events:
        of_app = sums.setdefault(str(event["app_id"]).removeprefix("'"), [0, 0, 0])
        cost_nano_usd = Decimal(event["cost_usd"] or 0) * 10**9
        assert cost_nano_usd == int(cost_nano_usd)
        for place, value in enumerate((1, int(event["tokens_used"]), int(cost_nano_usd))):
            of_app[place] += value
    return {app_id: (calls, tokens, cost) for app_id, (calls, tokens, cost) in sums.items()}


@pytest.mark.design("D4-80")
async def test_every_row_is_billed_once_though_many_add_up_at_once(store: RunStore) -> None:
    await insert_usage(store.database, SEVERAL)

    while await store.database["usage"].count_documents({"rollup": {"$exists": True}}):
        await asyncio.gather(*(roll_up(store) for _ in range(4)))

    sent_events = await events(store)
    assert len(sent_events) == len({event["id"] for event in sent_events}) == len(SEVERAL)
    assert sums_of_events(sent_events) == await sums_of_totals(store)


async def test_without_an_outbox_nothing_is_kept_for_billing(store: RunStore) -> None:
    await insert_usage(store.database, days(3))

    await RollUp(store.database).run_pass(Counter())

    assert await store.database["outbox"].count_documents({}) == 0


async def test_a_call_that_was_taken_for_lost_is_corrected_under_its_id(store: RunStore) -> None:
    """The documented rule: the complete event replaces the missing one, in any order."""
    ledger = Ledger(store.database, PRICES)
    await ledger.ensure_indexes()
    owner = RunOwner("run_1", "acme", None, "chat_1", "Digest", "schedule")
    long_ago = datetime.now(UTC) - timedelta(hours=2)
    await ledger.begin(owner, lease_token=1, call=BegunCall(1, "Writer", "openai", "gpt", long_ago))
    assert [json.loads(to_json_line(row)) async for row in read_ledger_rows(store.database, UsageFilter())] == []
    await give_up_open_rows(store)
    await roll_up(store)
    answer = ModelCall(
        number=1,
        agent="Writer",
        provider="openai",
        model="gpt",
        tokens=Tokens(input=100, output=10),
        status="reported",
        ok=True,
        started_at=long_ago,
        duration_s=7200,
    )
    await ledger.record(owner, lease_token=1, call=answer)
    await roll_up(store)

    first, second = await events(store)
    assert first["id"] == second["id"] == "run_1:1:1"
    assert (first["status"], first["tokens_used"], first["cost_usd"], first["corrects"]) == ("missing", 0, 0, False)
    assert (second["status"], second["tokens_used"], second["corrects"]) == ("reported", 110, True)
    bodies = [batch["body"].encode() async for batch in store.database["outbox"].find()]
    for received in (bodies, bodies[::-1], [*bodies, *bodies]):
        assert sums_of_events(receive_as_documented(received)) == await sums_of_totals(store)


def receive_as_documented(bodies: Sequence[bytes]) -> list[dict[str, Any]]:
    page = Path(__file__).parents[4] / "docs" / "billing.md"
    names: dict[str, Any] = {"SECRET": SECRET}
    exec(page.read_text(encoding="utf-8").split("```python\n")[1].split("```")[0], names)  # noqa: S102 -- our own page
    for number, body in enumerate(bodies):
        headers = sign_headers(f"batch_{number}", body, keys=parse_signing_keys([SECRET]), at_s=int(time.time()))
        names["receive"](headers, body)
    return [{**event, "cost_usd": Decimal(str(event["cost_usd"]))} for event in names["kept"].values()]


async def test_exports_equal_the_totals_in_order_of_time(store: RunStore) -> None:
    await insert_usage(store.database, SEVERAL)
    rows = [row async for row in read_ledger_rows(store.database, UsageFilter())]
    text = "".join(map(format_csv_line, [FIELDS, *map(to_csv_row, rows)]))

    in_csv = list(csv.DictReader(io.StringIO(text, newline="")))
    in_json = [json.loads(to_json_line(row), parse_float=Decimal) for row in rows]

    assert sums_of_events(in_csv) == sums_of_events(in_json) == await sums_of_totals(store)
    assert [each["at"] for each in in_json] == sorted(each["at"] for each in in_json)
    assert {each["workflow"] for each in in_csv} == {"Digest", "'=Digest"}
    assert {each["workflow"] for each in in_json} == {"Digest", "=Digest"}


@pytest.mark.parametrize(
    ("usage_filter", "number"),
    [
        (UsageFilter(), 90),
        (UsageFilter(app_id="acme"), 30),
        (UsageFilter(workflow="=Digest"), 30),
        (UsageFilter(since=datetime(2026, 1, 6, 6, tzinfo=UTC), until=datetime(2026, 1, 8, 6, tzinfo=UTC)), 6),
        (UsageFilter(app_id="nobody"), 0),
    ],
    ids=["all", "app", "workflow", "time", "nobody"],
)
async def test_an_export_is_of_what_was_asked_for(store: RunStore, usage_filter: UsageFilter, number: int) -> None:
    await insert_usage(store.database, SEVERAL)

    rows = [row async for row in read_ledger_rows(store.database, usage_filter)]

    assert len(rows) == await count_rows(store.database, usage_filter) == number


async def test_resending_makes_new_batches_with_the_same_events(store: RunStore) -> None:
    await insert_usage(store.database, SEVERAL)
    await roll_up(store)
    before = await store.database["outbox"].distinct("_id")
    progress: list[int] = []

    sent = await resend_rows(store.database, UsageFilter(app_id="acme"), on_progress=progress.append)

    assert sent == 30
    again = Counter(event["id"] for event in await events(store))
    assert Counter(again.values()) == {1: 60, 2: 30}
    assert set(before) < set(await store.database["outbox"].distinct("_id"))
