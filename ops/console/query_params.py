"""Query parameters of a page: parsed filters, and the paths that link to pages."""

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from typing import TypeVar
from urllib.parse import quote, urlencode

from starlette.datastructures import QueryParams
from starlette.requests import Request

from ops.presenters.times import parse_moment
from triggers.api.field_types import MAX_NAME
from triggers.gateway.http_problems import ProblemError

Choice = TypeVar("Choice", bound=StrEnum)


def text_param(query: QueryParams, name: str) -> str | None:
    """Return None for an empty field."""
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
    """Parse an age such as 2h or 7d, or a date, as `unattended runs list --since` does."""
    value = text_param(query, name)
    if value is None:
        return None
    try:
        return parse_moment(value)
    except ValueError as error:
        raise ProblemError(422, f"{name}: {error}") from None


def current_path(request: Request) -> str:
    """Return the page's path, quoted again: Starlette decodes it, and a `%2F` in a name would split the name."""
    query = request.scope["query_string"].decode("ascii", "replace")
    return quote(request.scope["path"]) + (f"?{query}" if query else "")


def run_path(run_id: str) -> str:
    return f"/console/runs/{quote(run_id, safe='')}"


def trigger_path(trigger_id: str, **query: str | None) -> str:
    """The name in an id has its app percent-encoded already; it becomes one segment behind the workflow."""
    workflow, _, name = trigger_id.partition("/")
    return with_query(f"/console/triggers/{quote(workflow, safe='')}/{quote(name, safe='')}", query)


def with_query(path: str, query: Mapping[str, str | None]) -> str:
    params = {name: value for name, value in query.items() if value}
    return f"{path}?{urlencode(params)}" if params else path
