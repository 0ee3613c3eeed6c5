"""Write targets: the document that a value is written to, and when.

The document belongs to the run's app.
"""

import re
from typing import cast

from workflows.context.documents.query_templates import is_system_collection
from workflows.package.normal_form.variable_sources import WriteStrategy, WriteTarget
from workflows.package.readers.field_aliases import used_field_name
from workflows.package.readers.section import Section

DATABASE_FIELDS = ("database_name", "database")
COLLECTION_FIELDS = ("collection", "collection_name")
FIELD_NAME = re.compile(r"[^.$\0][^.\0]*")  # a top-level field of a document
FACT_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")  # a name that fits into {{runtime.name}}
WRITE_STRATEGIES = ("immediate", "on_success")
# These fields name the owner of a document: writing them would move it to another owner.
_OWNER_FIELDS = frozenset({"_id", "app_id", "enterprise_id"})


def read_collection_place(section: Section, *, database: str | None = None) -> tuple[str, str]:
    """Returns database and collection.

    `database`: the file's default for all variables.
    """
    name = section.text(*DATABASE_FIELDS) or database or section.required_text(*DATABASE_FIELDS)
    collection = section.required_text(*COLLECTION_FIELDS)
    if is_system_collection(name, ""):
        field = used_field_name(section, *DATABASE_FIELDS)
        section.error("forbidden_place", field, f"{name} belongs to the database server; name another database")
    if is_system_collection("", collection):
        field = used_field_name(section, *COLLECTION_FIELDS)
        section.error("forbidden_place", field, f"{collection} belongs to the database server; name another collection")
    return name, collection


def read_search_by(section: Section, field: str) -> str | None:
    name = section.text(field)
    if name is not None and not FACT_NAME.fullmatch(name):
        section.error("wrong_value", field, "must be the name of a value of the run, such as app_id")
        return None
    return name


def read_write_strategy(section: Section, *, default: WriteStrategy | None) -> WriteStrategy | None:
    strategy = section.text("write_strategy")
    if strategy is None:
        return default
    if strategy.lower() not in WRITE_STRATEGIES:
        section.error("wrong_value", "write_strategy", f"must be one of {', '.join(WRITE_STRATEGIES)}")
        return default
    return cast("WriteStrategy", strategy.lower())


def check_written_field(section: Section, field: str, name: str | None) -> str | None:
    if name is None:
        return None
    if not FIELD_NAME.fullmatch(name):
        section.error("wrong_value", field, "must be one top-level field, without dots and $")
    elif name in _OWNER_FIELDS:
        section.error("wrong_value", field, f"{name} names the owner of the document and is never written")
    return name


def read_write_target(section: Section) -> WriteTarget:
    """Reads `persist_to: {database, collection, search_by, field, write_strategy}`."""
    database, collection = read_collection_place(section)
    by = read_search_by(section, "search_by")
    if by is None and not section.text("search_by"):
        section.error(
            "missing_field", "search_by", "is required: the field of the document that equals a value of the run"
        )
    field = check_written_field(section, "field", section.text("field"))
    strategy = read_write_strategy(section, default="on_success") or "on_success"
    section.report_unread()
    return WriteTarget(database, collection, by or "", strategy, field)
