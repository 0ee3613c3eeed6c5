"""CloudEvents 1.0 over HTTP, in binary and structured mode."""

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote

STRUCTURED = "application/cloudevents+json"
BATCHED = "application/cloudevents-batch"
_HEADER = "ce-"
_REQUIRED = ("specversion", "id", "source", "type")
_REQUIRED_HEADERS = frozenset(f"{_HEADER}{name}" for name in _REQUIRED)
_NAME = re.compile(r"[a-z0-9]{1,100}")
_MAX_LENGTH = 2_000


class NotACloudEventError(ValueError):
    """The text tells the sender what is wrong."""


def is_binary_mode(headers: Mapping[str, str]) -> bool:
    """Needs one required header: a sender without the others gets an error."""
    return not _REQUIRED_HEADERS.isdisjoint(headers)


def read_attributes(headers: Mapping[str, str]) -> dict[str, Any]:
    """Returns the attributes of a binary event, without its data."""
    event: dict[str, Any] = {}
    for header, value in headers.items():
        name = header.removeprefix(_HEADER)
        if header.startswith(_HEADER) and _NAME.fullmatch(name) and name != "data":
            event[name] = _decode_header(name, value)
    if "content-type" in headers:
        event["datacontenttype"] = headers["content-type"]
    return event


def check_cloud_event(event: Any) -> None:
    if not isinstance(event, dict):
        raise NotACloudEventError("a CloudEvent is one JSON object")
    for name in _REQUIRED:
        value = event.get(name)
        if not isinstance(value, str) or not 0 < len(value) <= _MAX_LENGTH:
            raise NotACloudEventError(f"the CloudEvent needs {name}: text of at most {_MAX_LENGTH} characters")
    if event["specversion"] != "1.0":
        raise NotACloudEventError("the CloudEvent's specversion must be 1.0")
    if any(character.isspace() for character in event["source"]):
        raise NotACloudEventError("the CloudEvent's source must be a URI reference, without spaces")


def cloud_event_id(event: Mapping[str, Any]) -> str:
    """Joins source and id, which identify an event.

    A source has no spaces, so the result is unique.
    """
    return f"{event['source']} {event['id']}"


def _decode_header(name: str, value: str) -> str:
    """Decodes percent-encoded UTF-8: headers hold ASCII only."""
    try:
        return unquote(value, errors="strict")
    except UnicodeDecodeError:
        raise NotACloudEventError(f"the header ce-{name} is not percent-encoded UTF-8") from None
