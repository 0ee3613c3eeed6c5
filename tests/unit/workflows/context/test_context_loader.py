"""Loading a run's context: sources, production, gating, limits, missing values."""

import asyncio
import logging
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from bson import ObjectId

from tests.unit.workflows.contexts import BASE, ENV, FACTS, FLAGS, ORDER, FakeDocuments, context_of, package, values_of
from workflows.context.context_loader import purge_suppressed
from workflows.context.documents.document_access import DocumentRead
from workflows.context.reads.missing_values import ContextError, ContextUnavailableError
from workflows.context.reads.source_reads import ReadTimeouts
from workflows.context.run_facts import FIXED_NAMES
from workflows.context.values.size_limits import MAX_VALUE_BYTES


def test_the_fixed_names_are_those_of_the_facts() -> None:
    assert set(FACTS.base_values()) == FIXED_NAMES


@pytest.mark.design("D1-22")
async def test_base_facts_and_flags_are_always_there(tmp_path: Path) -> None:
    assert await values_of(package(tmp_path)) == {**BASE, **FLAGS}


async def test_flags_follow_the_environment(tmp_path: Path) -> None:
    values = await values_of(package(tmp_path), environment={"CONTEXT_AWARE": "0", "MONETIZATION_ENABLED": "yes"})
    assert (values["context_aware"], values["monetization_enabled"]) == (False, True)


@pytest.mark.design("D1-5", "D1-22", "D1-24", "D1-42")
async def test_production_has_neither_flags_nor_environment_variables(tmp_path: Path) -> None:
    region = package(
        tmp_path, region={**ENV, "default": "eu"}, other={"type": "config", "env_var": "X", "required": True}
    )

    context = await context_of(region, production=True)

    assert dict(context.variables) == BASE
    assert context.suppressed == {"region", "other", "context_aware", "monetization_enabled"}


@pytest.mark.design("D1-60")
async def test_production_logs_what_is_suppressed_by_name_only(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)

    await context_of(package(tmp_path, region={**ENV, "default": "canary"}), production=True)

    records = [record for record in caplog.records if record.getMessage() == "environment_variables_suppressed"]
    assert [record.levelname for record in records] == ["INFO"]
    assert "canary" not in str([vars(record) for record in caplog.records])


@pytest.mark.design("D1-60")
async def test_an_input_of_a_suppressed_name_is_purged_with_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    both = package(tmp_path, inputs={"region": {"type": "string"}}, region=ENV)

    values = await values_of(both, {"region": "from outside"}, production=True)

    assert "region" not in values
    assert [(each.levelname, each.getMessage()) for each in caplog.records if each.levelno >= logging.WARNING] == [
        ("WARNING", "environment_variables_purged")
    ]


@pytest.mark.design("D1-5", "D1-24", "D1-42")
def test_a_checkpoint_is_purged_as_well() -> None:
    assert dict(purge_suppressed({"a": 1, "region": "eu"}, frozenset({"region"}), run_id="run_1")) == {"a": 1}


@pytest.mark.design("D1-4", "D1-26")
@pytest.mark.parametrize(
    ("declared", "text", "expected"),
    [("string", "eu", "eu"), ("boolean", "on", True), ("integer", "7", 7), ("object", '{"a": 1}', {"a": 1})],
)
async def test_an_environment_variable_has_its_declared_type(
    tmp_path: Path, declared: str, text: str, expected: object
) -> None:
    values = await values_of(package(tmp_path, region={**ENV, "as": declared}), environment={"REGION": text})
    assert values["region"] == expected


@pytest.mark.design("D1-26", "D1-48")
async def test_an_unset_environment_variable_has_its_default(tmp_path: Path) -> None:
    assert (await values_of(package(tmp_path, region={**ENV, "default": "eu"})))["region"] == "eu"


async def test_a_value_of_the_wrong_type_is_named_but_not_shown(tmp_path: Path) -> None:
    with pytest.raises(ContextError, match="region from the environment: REGION is not of type integer") as caught:
        await context_of(package(tmp_path, region={**ENV, "as": "integer"}), environment={"REGION": "canary"})

    assert "canary" not in str(caught.value)


@pytest.mark.parametrize(
    ("sources", "inputs", "named"),
    [
        (
            {"region": {**ENV, "required": True}},
            {},
            "region from the environment: it is required and REGION is not set",
        ),
        (
            {"who": {"type": "runtime", "required": True}},
            {},
            "who from the run's input: it is required and the trigger did not supply it",
        ),
        ({"order": {**ORDER, "required": True}}, {"order_id": {"default": 1}}, "order from shop.orders: no document"),
        ({"order": {**ORDER, "required": True}}, {"order_id": {}}, "order from shop.orders: order_id has no value"),
        ({}, {"order_id": {"required": True}}, "order_id from the run's input: it is required"),
    ],
)
async def test_what_is_required_and_missing_is_named(
    tmp_path: Path, sources: dict[str, Any], inputs: dict[str, Any], named: str
) -> None:
    with pytest.raises(ContextError, match=named):
        await context_of(package(tmp_path, inputs, **sources))


@pytest.mark.design("D2-1")
async def test_only_inputs_and_runtime_variables_come_from_the_payload(tmp_path: Path) -> None:
    declared = package(
        tmp_path, {"region": {"default": "eu"}, "note": {}}, who={"type": "runtime", "default": "nobody"}
    )

    values = await values_of(declared, {"region": "us", "who": "ada", "undeclared": {"$ne": None}})

    assert values == {**BASE, **FLAGS, "region": "us", "note": None, "who": "ada"}


async def test_null_in_a_payload_means_the_default(tmp_path: Path) -> None:
    declared = package(tmp_path, {"region": {"default": "eu"}}, who={"type": "runtime", "default": "nobody"})

    values = await values_of(declared, {"region": None, "who": None})

    assert (values["region"], values["who"]) == ("eu", "nobody")


@pytest.mark.design("D4-76", "D4-77")
@pytest.mark.parametrize("name", sorted(BASE))
async def test_nothing_replaces_the_identity_of_the_run(tmp_path: Path, name: str) -> None:
    source = {**ORDER, "query_template": {"app_id": "{{app_id}}", "by": "{{user_id}}"}}
    variables: dict[str, Any] = {name: {"type": "runtime"}, "order": source}
    forged = package(tmp_path, {name: {"default": "globex"}}, **variables)
    shop = FakeDocuments()

    values = await values_of(forged, {name: "globex"}, shop=shop)

    assert {key: values[key] for key in BASE} == BASE
    assert shop.queries[0].query == {"app_id": "acme", "by": "ada"}


@pytest.mark.design("D1-10")
async def test_one_runs_changes_are_not_the_next_runs_defaults(tmp_path: Path) -> None:
    shared = package(
        tmp_path,
        {"tags": {"default": ["a"]}},
        notes={"type": "state", "default": ["a"]},
        fixed={"type": "static", "value": {"a": ["a"]}},
        who={"type": "runtime", "default": ["a"]},
        region={**ENV, "default": ["a"]},
        order={**ORDER, "default": ["a"]},
    )
    first = (await context_of(shared, {"order_id": "1"})).variables
    for name in ("tags", "notes", "who", "region", "order"):
        first[name].append("secret of app one")
    first["fixed"]["a"].append("secret of app one")

    assert "secret" not in str(await values_of(shared, {"order_id": "1"}))


@pytest.mark.design("D1-47")
async def test_one_field_gives_its_value_and_several_a_mapping(tmp_path: Path) -> None:
    read = package(tmp_path, {"order_id": {}}, one=ORDER, several={**ORDER, "fields": ["status", "total", "absent"]})
    shop = FakeDocuments({"status": "paid", "total": 120, "secret": "no"})

    values = await values_of(read, {"order_id": "A-1"}, shop=shop)

    assert values["one"] == "paid"
    assert values["several"] == {"status": "paid", "total": 120, "absent": None}
    assert shop.queries[0] == DocumentRead("acme", "shop", "orders", {"_id": "A-1", "app_id": "acme"}, ("status",))


async def test_a_database_value_is_plain_json_from_the_first_turn_on(tmp_path: Path) -> None:
    paid_at = datetime(2026, 3, 1, tzinfo=UTC)
    shop = FakeDocuments({"status": {"by": ObjectId("65f1a2b3c4d5e6f708192a3b"), "at": paid_at}})

    values = await values_of(package(tmp_path, {"order_id": {}}, order=ORDER), {"order_id": 1}, shop=shop)

    assert values["order"] == {"by": "65f1a2b3c4d5e6f708192a3b", "at": str(paid_at)}


@pytest.mark.design("D1-2")
async def test_search_by_asks_for_the_fact_of_that_name(tmp_path: Path) -> None:
    source = {key: value for key, value in ORDER.items() if key not in ("query_template", "fields")}
    shop = FakeDocuments({"plan": "gold"})

    values = await values_of(
        package(tmp_path, plan={**source, "search_by": "enterprise_id", "field": "plan"}), shop=shop
    )

    assert values["plan"] == "gold"
    assert (shop.queries[0].query, shop.queries[0].fields) == ({"enterprise_id": "acme"}, ("plan",))


@pytest.mark.design("D1-25")
async def test_a_gated_schema_reads_nothing(tmp_path: Path) -> None:
    shop = FakeDocuments({"status": "paid"})

    values = await values_of(
        package(tmp_path, {"order_id": {}}, order={**ORDER, "required": True}), include_schema=False, shop=shop
    )

    assert "order" not in values
    assert shop.queries == []


@pytest.mark.parametrize("payload", [{}, {"order_id": {"$ne": None}}, {"order_id": ["a"]}])
async def test_an_unreadable_optional_value_is_its_default_and_logged(
    tmp_path: Path, payload: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    shop = FakeDocuments({"status": "of somebody else"})

    values = await values_of(
        package(tmp_path, {"order_id": {}}, order={**ORDER, "default": "none"}), payload, shop=shop
    )

    assert values["order"] == "none"
    assert shop.queries == []
    assert [record.getMessage() for record in caplog.records] == ["context_value_missing"]


@pytest.mark.design("D1-76")
async def test_a_value_above_the_bound_does_not_come_in(tmp_path: Path) -> None:
    shop = FakeDocuments({"status": "x" * (MAX_VALUE_BYTES + 1)})
    read = package(tmp_path / "a", {"order_id": {}}, order={**ORDER, "default": "none"})
    required = package(tmp_path / "b", {"order_id": {}}, order={**ORDER, "required": True})

    assert (await values_of(read, {"order_id": 1}, shop=shop))["order"] == "none"
    with pytest.raises(ContextError, match=r"order from shop.orders: the value is larger than 256 KB"):
        await values_of(required, {"order_id": 1}, shop=shop)


async def test_a_read_has_a_deadline(tmp_path: Path) -> None:
    class Silent(FakeDocuments):
        async def read(self, *_: Any) -> Mapping[str, Any] | None:
            return await asyncio.get_running_loop().create_future()  # type: ignore[no-any-return]  # -- a future that never ends

    with pytest.raises(ContextUnavailableError, match=r"order from shop.orders: no answer within"):
        await context_of(
            package(tmp_path, {"order_id": {"default": 1}}, order=ORDER),
            shop=Silent(),
            timeouts=ReadTimeouts(read_s=0.01),
        )


@pytest.mark.design("D4-92")
async def test_reads_are_concurrent(tmp_path: Path) -> None:
    barrier = asyncio.Barrier(3)

    class Together(FakeDocuments):
        async def read(self, *_: Any) -> Mapping[str, Any] | None:
            await barrier.wait()
            return {"status": "paid"}

    async with asyncio.timeout(5):
        values = await values_of(
            package(tmp_path, {"order_id": {"default": 1}}, a=ORDER, b=ORDER, c=ORDER), shop=Together()
        )

    assert [values[name] for name in "abc"] == ["paid"] * 3
