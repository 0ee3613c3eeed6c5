"""Our own collections: closed to packages, complete, and only in our own database."""

import re
from pathlib import Path

import pytest

import workers
from accounting.ledger.ledger_rows import COLLECTION
from workers.store.reserved_collections import RESERVED_COLLECTIONS, refusal_reason

SOURCES = Path(workers.__file__).parent.parent


def test_every_collection_that_the_product_opens_is_listed() -> None:
    opened = {COLLECTION}
    for folder in ("accounting", "workers", "triggers"):
        for path in (SOURCES / folder).rglob("*.py"):
            opened.update(re.findall(r"""\bdatabase\]?\["(\w+)"\]""", path.read_text(encoding="utf-8")))

    assert {"runs", "turns", "api_keys"} < opened
    assert opened <= RESERVED_COLLECTIONS


@pytest.mark.parametrize(
    ("database", "collection", "owner"),
    [
        ("unattended", "runs", "Unattended itself"),
        ("unattended", "api_keys", "Unattended itself"),
        ("admin", "users", "the database server"),
        ("Admin", "users", "the database server"),
        ("local", "oplog.rs", "the database server"),
        ("config", "transactions", "the database server"),
        ("shop", "system.profile", "the database server"),
    ],
)
def test_a_reserved_collection_names_its_owner(database: str, collection: str, owner: str) -> None:
    assert (
        refusal_reason(database, collection, own_database="unattended") == f"{database}.{collection} belongs to {owner}"
    )


@pytest.mark.parametrize(("database", "collection"), [("shop", "runs"), ("unattended", "orders")])
def test_all_else_is_open(database: str, collection: str) -> None:
    assert refusal_reason(database, collection, own_database="unattended") is None
