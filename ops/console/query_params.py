"""What an address asks for: filters as people write them, checked, with a sentence where one cannot be used."""

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from typing import TypeVar
from urllib.parse import quote, urlencode

import click
from starlette.datastructures import QueryParams
from starlette.requests import Request

from ops.cli.runs.run_options import MOMENT
from triggers.api.field_types import MAX_NAME
from triggers.gateway.http_problems import ProblemError

Choice = TypeVar("Choice", bound=StrEnum)


def text_param(query: QueryParams, name: str) -> str | None:
    """An empty field asks for nothing."""
    value = query.get(name, "").strip()
    if len(value) > MAX_NAME:
        raise ProblemError(422, f"{name}: is longer than {MAX_NAME} characters")
    return value or None


def choice_param(query: QueryParams, name: str, choices: type[Choice]) -> Choice | None:
    value = text_param(query, name)
    if value is None:
        return None
    try:
        return choices(value)
    except ValueError:
        raise ProblemError(422, f"{name}: must be one of {', '.join(choices)}") from None


def word_param(query: QueryParams, name: str, choices: tuple[str, ...], default: str | None = None) -> str | None:
    value = text_param(query, name)
    if value is not None and value not in choices:
        raise ProblemError(422, f"{name}: must be one of {', '.join(choices)}")
    return value or default


def moment_param(query: QueryParams, name: str) -> datetime | None:
    """An age such as 2h or 7d, or a date, as `unattended runs list --since` takes it."""
    value = text_param(query, name)
    if value is None:
        return None
    try:
        return parse_moment(value)
    except click.BadParameter as error:
        raise ProblemError(422, f"{name}: {error.message}") from None


def parse_moment(value: str) -> datetime:
    return MOMENT.convert(value, None, None)


def current_path(request: Request) -> str:
    """Of this page. Starlette has its path decoded, where a `%2F` in a name would become a part more."""
    query = request.scope["query_string"].decode("ascii", "replace")
    return quote(request.scope["path"]) + (f"?{query}" if query else "")


def run_path(run_id: str) -> str:
    return f"/console/runs/{quote(run_id, safe='')}"


def trigger_path(trigger_id: str, **query: str | None) -> str:
    """An id has its app percent-encoded already, and is one part of a path behind its workflow."""
    workflow, _, name = trigger_id.partition("/")
    return with_query(f"/console/triggers/{quote(workflow, safe='')}/{quote(name, safe='')}", query)


def with_query(path: str, query: Mapping[str, str | None]) -> str:
    said = {name: value for name, value in query.items() if value}
    return f"{path}?{urlencode(said)}" if said else path
