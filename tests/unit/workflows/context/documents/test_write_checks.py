"""Write checks: each document of a run is checked once, before anything is spent."""

from pathlib import Path
from typing import Any

import pytest
from pymongo.errors import AutoReconnect, OperationFailure

from tests.unit.workflows.contexts import FACTS, FakeDocuments, package
from workflows.context.context_loader import ContextSources, load_context
from workflows.context.documents.document_access import DocumentTarget, WriteRefusedError, WriteTooSlowError
from workflows.context.external.external_reader import refuse_external_read
from workflows.context.reads.missing_values import ContextError, ContextUnavailableError

PLACE = {"database_name": "shop", "collection": "orders"}
ORDER: dict[str, Any] = {
    "as": "object",
    "type": "data_entity",
    "query_template": {"_id": "{{order_id}}"},
    "fields": ["status"],
    **PLACE,
    "write_strategy": "on_success",
}
LATE = {"type": "computed", "computation": "order.status", "inputs": ["order"], "persist_to": "order.late"}
NOTE = {**ORDER, "query_template": None, "search_by": "user_id", "write_strategy": None}


class FakeWriteCheck:
    """Returns the same error for each target, or none."""

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error
        self.places: list[DocumentTarget] = []

    async def check(self, place: DocumentTarget) -> None:
        self.places.append(place)
        if self.error is not None:
            raise self.error


async def load(folder: Path, checked: FakeWriteCheck, order_id: Any = "o-7", **variables: Any) -> None:
    made = package(folder, {"order_id": {}}, **variables)
    sources = ContextSources(
        environment={},
        production=False,
        include_schema=True,
        read_document=FakeDocuments({"status": "paid"}).read,
        read_external=refuse_external_read,
        check_writable=checked.check,
    )
    await load_context(made, FACTS, {} if order_id is None else {"order_id": order_id}, sources)


async def test_each_document_that_may_be_written_is_looked_for_once(tmp_path: Path) -> None:
    checked = FakeWriteCheck()

    await load(tmp_path, checked, late=LATE, order=ORDER, note=NOTE)

    assert checked.places == [DocumentTarget("order", "acme", "shop", "orders", "_id", "o-7")]


@pytest.mark.parametrize(
    ("error", "raised", "words"),
    [
        (WriteRefusedError("order o-7 is read-only"), ContextError, "order o-7 is read-only"),
        (WriteTooSlowError("no index"), WriteTooSlowError, "no index"),
        (
            AutoReconnect("at 10.0.0.1"),
            ContextUnavailableError,
            "cannot check whether order can be written back: the database: Auto",
        ),
        (OperationFailure("odd", 1), OperationFailure, "odd"),
    ],
    ids=str,
)
async def test_a_refused_write_fails_the_run_and_an_unclear_one_is_retried(
    tmp_path: Path, error: Exception, raised: type[Exception], words: str
) -> None:
    with pytest.raises(raised, match=words):
        await load(tmp_path, FakeWriteCheck(error), order=ORDER)


@pytest.mark.parametrize("order_id", [None, {"$ne": None}, ["o-7"]], ids=str)
async def test_a_document_that_nothing_names_is_refused_too(tmp_path: Path, order_id: Any) -> None:
    checked = FakeWriteCheck()

    with pytest.raises(ContextError, match=r"order is not written to shop\.orders: order_id"):
        await load(tmp_path, checked, order_id, order=ORDER)

    assert checked.places == []
