"""The API description: OpenAPI from the routes, with all their problems."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from starlette.requests import Request
from starlette.responses import Response

_PROBLEM = {
    "title": "Problem",
    "description": "What is wrong, and what to do about it (RFC 9457).",
    "type": "object",
    "required": ["type", "title", "status", "detail"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
        "errors": {
            "type": "object",
            "additionalProperties": {"type": "string"},
            "description": "A sentence for each invalid field.",
        },
        "done": {
            "type": "object",
            "description": "Of a refused replay: the tool calls and write-backs that it would repeat.",
        },
    },
    "examples": [
        {
            "type": "about:blank",
            "title": "Unprocessable Entity",
            "status": 422,
            "detail": "workflow: is needed",
            "errors": {"workflow": "is needed"},
        }
    ],
}
# The keys that values may have: those of a run are restricted by the store, those of an answer are not.
_KEY_PATTERNS = {"RunValue": r"^([^$.\u0000][^.\u0000]*)?$", "AnswerValue": r"^[^\u0000]*$"}
_PROBLEM_DESCRIPTIONS: Mapping[int, str] = {
    400: "The body is not JSON, or a header cannot be read",
    401: "No valid API key",
    403: "This key may not do that",
    404: "Not found, or not in this key's app; `errors` names the field",
    408: "The body did not arrive in time",
    409: "Its state does not allow that, or the name or key is taken",
    412: "It was changed meanwhile",
    413: "The body is too large",
    415: "The content type is not JSON",
    422: "Invalid fields; `errors` names each of them",
    428: "The revision is required",
    429: "Too many calls; try again after `Retry-After` seconds",
    500: "An error on our side",
    503: "The store does not answer; try again after `Retry-After` seconds",
}
_RETRY_AFTER = {"Retry-After": {"description": "Seconds to wait", "schema": {"type": "integer"}}}
_RATE_LIMIT_HEADERS = {
    name: {"description": description, "schema": {"type": "integer", "minimum": 0}}
    for name, description in {
        "RateLimit-Limit": "How many calls the key may make at once",
        "RateLimit-Remaining": "How many of them are left",
        "RateLimit-Reset": "Seconds until all of them are available again",
    }.items()
}
_DESCRIPTION = (
    "Starts AG2 workflows that run unattended, and shows their results. Times are ISO 8601 in UTC; errors are "
    "`application/problem+json`. Listings are paged: `next`, or the `Link` header, leads to the next page. The "
    "`RateLimit-*` headers show how many calls the key has left. An unknown query parameter is answered 422."
)


def problem_responses(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Returns the problems of an operation beside the common ones."""
    return {status: _problem_response(status) for status in statuses}


def _problem_response(status: int) -> dict[str, Any]:
    schema = {"$ref": "#/components/schemas/Problem"}
    answer: dict[str, Any] = {
        "description": _PROBLEM_DESCRIPTIONS[status],
        "content": {"application/problem+json": {"schema": schema}},
    }
    return answer | ({"headers": _RETRY_AFTER} if status in (429, 503) else {})


COMMON_PROBLEMS = problem_responses(400, 401, 408, 413, 415, 422, 429, 503)


class ApiDescription:
    """Builds the document on the first request, in a thread: it takes 0.25 s."""

    def __init__(self, api: FastAPI) -> None:
        self._api = api

    @cached_property
    def document(self) -> Mapping[str, Any]:
        document = get_openapi(title=self._api.title, version="1", description=_DESCRIPTION, routes=self._api.routes)
        _describe_values(document["components"]["schemas"])
        document["components"]["headers"] = _RATE_LIMIT_HEADERS
        for path in document["paths"].values():
            for operation in path.values():
                _describe_responses(operation["responses"])
                operation["parameters"] = [
                    _drop_null_choice(parameter) for parameter in operation.get("parameters", ())
                ]
        return document

    async def serve_json(self, _request: Request) -> Response:
        text = await asyncio.to_thread(lambda: json.dumps(self.document))
        return Response(text, media_type="application/json")


def _describe_responses(responses: Mapping[str, dict[str, Any]]) -> None:
    rate = {name: {"$ref": f"#/components/headers/{name}"} for name in _RATE_LIMIT_HEADERS}
    for status, answer in responses.items():
        answer["description"] = answer["description"].replace("Successful Response", "Done")
        if status != "401":  # no key, no rate limit
            answer["headers"] = {**answer.get("headers", {}), **rate}


def _describe_values(schemas: dict[str, Any]) -> None:
    """Describes recursive values by hand: pydantic would validate each nested one."""
    schemas["Problem"] = _PROBLEM
    for name in _KEY_PATTERNS:
        plain = [{"type": kind} for kind in ("null", "boolean", "number", "string")]
        whole = {"type": "integer", "minimum": -(2**63), "maximum": 2**63 - 1}
        several = {"type": "array", "items": {"$ref": f"#/components/schemas/{name}"}}
        schemas[name] = {"title": name, "anyOf": [*plain, whole, several, _object_schema(name)]}
    schemas["NewRun"]["properties"]["input"] |= _object_schema("RunValue")
    [responses, _] = schemas["RunAnswer"]["properties"]["responses"]["anyOf"]
    responses |= {**_object_schema("AnswerValue"), "additionalProperties": _object_schema("AnswerValue")}


def _object_schema(name: str) -> dict[str, Any]:
    return {
        "type": "object",
        "propertyNames": {"pattern": _KEY_PATTERNS[name]},
        "additionalProperties": {"$ref": f"#/components/schemas/{name}"},
    }


def _drop_null_choice(parameter: dict[str, Any]) -> dict[str, Any]:
    """Drops null from an optional parameter: an address has no null."""
    schema = dict(parameter["schema"])
    choices: Sequence[dict[str, Any]] = schema.pop("anyOf", ())
    kept = [choice for choice in choices if choice.get("type") != "null"]
    return {**parameter, "schema": {**schema, **(kept[0] if len(kept) == 1 else {"anyOf": kept} if kept else {})}}
