"""Reads of values: entities, deadlines, limits, and one report of missing values."""

import asyncio
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from pymongo.errors import AutoReconnect, ConfigurationError

from tests.unit.workflows.contexts import BASE, FLAGS, ORDER, FakeDocuments, context_of, package, values_of
from workflows.context.documents.document_access import DocumentRead, ReadRefusedError
from workflows.context.reads.missing_values import ContextError, ContextUnavailableError, NoValueError
from workflows.context.reads.source_reads import ReadTimeouts
from workflows.context.values.size_limits import MAX_CONTEXT_BYTES
from workflows.package.normal_form.variable_sources import ExternalSource

CUSTOMER = {
    "type": "data_entity",
    "database": "shop",
    "collection": "customers",
    "search_by": "user_id",
    "fields": ["plan", "seats"],
}
RATE = {"type": "external", "url": "https://api.example.com/rates/{{runtime.app_id}}"}


class FailingDocuments(FakeDocuments):
    def __init__(self, error: Exception) -> None:
        super().__init__()
        self.error = error

    async def read(self, *_: Any) -> Mapping[str, Any] | None:
        raise self.error


class AnsweringService:
    """An external service in memory."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer
        self.requests: list[tuple[str, str]] = []

    async def __call__(self, source: ExternalSource, *, app_id: str, facts: Mapping[str, Any]) -> Any:
        assert facts["app_id"] == app_id
        self.requests.append((source.url, app_id))
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def missing_in(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str, str]]:
    fields = [vars(each) for each in caplog.records if each.getMessage() == "context_value_missing"]
    return [(each["variable"], each["source"], each["reason"]) for each in fields]


async def test_an_entity_is_the_named_fields_of_the_runs_own_document(tmp_path: Path) -> None:
    shop = FakeDocuments({"plan": "gold", "seats": 3, "card": "4111"})

    values = await values_of(package(tmp_path, customer={**CUSTOMER, "as": "object"}), shop=shop)

    assert values["customer"] == {"plan": "gold", "seats": 3}
    assert shop.queries == [DocumentRead("acme", "shop", "customers", {"user_id": "ada"}, ("plan", "seats"))]


async def test_a_runtime_variable_finds_a_document_as_an_input_does(tmp_path: Path) -> None:
    shop = FakeDocuments({"status": "paid"})
    spec = package(tmp_path, order=ORDER, order_id={"type": "runtime", "default": "none"})

    await values_of(spec, {"order_id": "o-1", "app_id": "globex"}, shop=shop)
    await values_of(spec, {}, shop=shop)

    assert [asked.query for asked in shop.queries] == [{"_id": each, "app_id": "acme"} for each in ("o-1", "none")]


async def test_an_entity_without_a_document_is_its_default_or_empty(tmp_path: Path) -> None:
    declared = package(
        tmp_path, one={**CUSTOMER, "as": "object"}, two={**CUSTOMER, "as": "object", "default": {"a": 1}}
    )

    values = await values_of(declared)

    assert (values["one"], values["two"]) == ({}, {"a": 1})


async def test_a_required_entity_needs_its_document(tmp_path: Path) -> None:
    with pytest.raises(ContextError, match=r"^customer from shop.customers: no document matches$"):
        await context_of(package(tmp_path, customer={**CUSTOMER, "as": "object", "required": True}))


@pytest.mark.parametrize("value", [{"$ne": None}, ["a"], None])
async def test_only_a_scalar_finds_an_entity(tmp_path: Path, value: Any, caplog: pytest.LogCaptureFixture) -> None:
    shop = FakeDocuments({"plan": "of somebody else"})
    declared = package(tmp_path, {"customer_id": {}}, customer={**CUSTOMER, "as": "object", "search_by": "customer_id"})

    values = await values_of(declared, {"customer_id": value}, shop=shop)

    assert (values["customer"], shop.queries) == ({}, [])
    assert [each[:2] for each in missing_in(caplog)] == [("customer", "shop.customers")]


async def test_a_gated_schema_reads_no_entity_either(tmp_path: Path) -> None:
    shop = FakeDocuments({"plan": "gold"})

    declared = package(tmp_path, customer={**CUSTOMER, "as": "object", "required": True})

    assert await values_of(declared, include_schema=False, shop=shop) == {**BASE, **FLAGS}
    assert shop.queries == []


async def test_all_that_is_required_and_missing_is_named_at_once(tmp_path: Path) -> None:
    declared = package(
        tmp_path,
        {"amount": {"type": "integer"}, "order_id": {}},
        order={**ORDER, "required": True},
        customer={**CUSTOMER, "as": "object", "required": True},
        rate={**RATE, "required": True},
        region={"type": "environment", "env_var": "REGION", "required": True},
        who={"type": "runtime", "required": True},
    )

    with pytest.raises(ContextError) as caught:
        await context_of(declared, {"amount": "canary"})

    assert str(caught.value).split("; ") == [
        "amount from the run's input: it must be of type integer",
        "region from the environment: it is required and REGION is not set",
        "who from the run's input: it is required and the trigger did not supply it",
        "order from shop.orders: order_id has no value in this run",
        "customer from shop.customers: no document matches",
        "rate from api.example.com: no host is allowed here",
        "the operator lists them in UNATTENDED_EXTERNAL_HOSTS",
    ]


async def test_a_missing_optional_value_is_logged_once_and_has_its_default(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    declared = package(
        tmp_path, {"order_id": {}}, order={**ORDER, "default": "none"}, rate={**RATE, "as": "number", "default": 1.5}
    )

    values = await values_of(declared, external=AnsweringService(NoValueError("it answered 404")))

    assert (values["order"], values["rate"]) == ("none", 1.5)
    assert missing_in(caplog) == [
        ("order", "shop.orders", "order_id has no value in this run"),
        ("rate", "api.example.com", "it answered 404"),
    ]
    assert {each.levelno for each in caplog.records} == {logging.WARNING}


async def test_a_temporarily_absent_service_is_retried_only_where_required(tmp_path: Path) -> None:
    away = AnsweringService(NoValueError("it answered 503", is_transient=True))

    optional = package(tmp_path / "a", rate={**RATE, "default": "1.5"})
    required = package(tmp_path / "b", rate={**RATE, "required": True})

    assert (await values_of(optional, external=away))["rate"] == "1.5"
    with pytest.raises(ContextUnavailableError, match=r"^rate from api.example.com: it answered 503$"):
        await context_of(required, external=away)


@pytest.mark.parametrize("required", [True, False])
async def test_a_database_that_is_away_is_waited_for(tmp_path: Path, required: bool) -> None:
    declared = package(tmp_path, customer={**CUSTOMER, "as": "object", "required": required})

    with pytest.raises(ContextUnavailableError, match=r"customer from shop\.customers: the database: AutoReconnect"):
        await context_of(declared, shop=FailingDocuments(AutoReconnect("canary:27017")))


async def test_one_fault_that_stays_makes_waiting_for_the_others_useless(tmp_path: Path) -> None:
    declared = package(
        tmp_path,
        customer={**CUSTOMER, "as": "object", "required": True},
        who={"type": "runtime", "required": True},
    )

    with pytest.raises(ContextError, match=r"who from .*; customer from .*AutoReconnect"):
        await context_of(declared, shop=FailingDocuments(AutoReconnect()))


@pytest.mark.parametrize("error", [ReadRefusedError("not yours"), ConfigurationError("canary")])
async def test_a_refused_read_is_final(tmp_path: Path, error: Exception) -> None:
    declared = package(tmp_path, customer={**CUSTOMER, "as": "object", "required": True})

    with pytest.raises(
        ContextError, match=r"customer from shop.customers: (not yours|the database: Configur)"
    ) as caught:
        await context_of(declared, shop=FailingDocuments(error))

    assert "canary" not in str(caught.value)


async def test_a_fault_of_ours_is_not_hidden(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError):
        await context_of(
            package(tmp_path, customer={**CUSTOMER, "as": "object"}), shop=FailingDocuments(ZeroDivisionError())
        )


async def test_one_deadline_bounds_all_reads_together(tmp_path: Path) -> None:
    class Half(FakeDocuments):
        async def read(self, wanted: DocumentRead) -> Mapping[str, Any] | None:
            if wanted.collection == "orders":
                return {"status": "paid"}
            return await asyncio.get_running_loop().create_future()  # type: ignore[no-any-return]  # -- a future that never ends

    declared = package(tmp_path, {"order_id": {"default": 1}}, order=ORDER, customer={**CUSTOMER, "as": "object"})

    with pytest.raises(ContextUnavailableError) as caught:
        await context_of(declared, shop=Half(), timeouts=ReadTimeouts(all_reads_s=0.01))

    assert str(caught.value) == "customer from shop.customers: no answer within the 0.01 s of all reads"


async def test_a_cancelled_run_takes_its_reads_along(tmp_path: Path) -> None:
    begun, ended = asyncio.Event(), asyncio.Event()

    class Watched(FakeDocuments):
        async def read(self, *_: Any) -> Mapping[str, Any] | None:
            begun.set()
            try:
                return await asyncio.get_running_loop().create_future()  # type: ignore[no-any-return]  # -- a future that never ends
            finally:
                ended.set()

    task = asyncio.create_task(context_of(package(tmp_path, customer={**CUSTOMER, "as": "object"}), shop=Watched()))
    await begun.wait()
    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task
    async with asyncio.timeout(5):
        await ended.wait()


@pytest.mark.parametrize(
    ("declared", "answer", "fits"),
    [
        ("string", "eur", True),
        ("string", {"a": 1}, False),
        ("number", 1, True),
        ("number", "1", False),
        ("integer", 1.5, False),
        ("integer", True, False),
        ("boolean", 1, False),
        ("boolean", False, True),
        ("object", [], False),
        ("array", [1], True),
    ],
)
async def test_an_external_value_of_another_type_than_declared_does_not_come_in(
    tmp_path: Path, declared: str, answer: Any, fits: bool, caplog: pytest.LogCaptureFixture
) -> None:
    values = await values_of(package(tmp_path, rate={**RATE, "as": declared}), external=AnsweringService(answer))

    assert values["rate"] == (answer if fits else None)
    assert bool(missing_in(caplog)) is not fits
    assert all(f"where {declared} is declared" in reason for _, _, reason in missing_in(caplog))


async def test_an_external_read_carries_its_app(tmp_path: Path) -> None:
    service = AnsweringService("eur")

    await context_of(package(tmp_path, rate=RATE), external=service)

    assert service.requests == [(RATE["url"], "acme")]


async def test_a_context_above_its_bound_ends_the_run(tmp_path: Path) -> None:
    declared = package(tmp_path, {"note": {}, "small": {}})

    assert (await values_of(declared, {"note": "x" * 1000}))["note"]
    with pytest.raises(ContextError, match=r"larger than 2048 KB; largest: note \((2047|above 2048) KB\)"):
        await context_of(declared, {"note": "x" * (MAX_CONTEXT_BYTES - 42)})


async def test_a_file_is_its_content_for_each_run_alone(tmp_path: Path) -> None:
    (tmp_path / "plans.json").write_text('{"gold": ["a"]}')
    declared = package(tmp_path, plans={"type": "file", "path": "plans.json", "format": "json", "as": "object"})

    first = (await context_of(declared)).variables
    first["plans"]["gold"].append("secret of app one")

    assert (await values_of(declared))["plans"] == {"gold": ["a"]}
