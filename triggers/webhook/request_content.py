"""Request content: parses a webhook's body into its event."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from triggers.gateway.http_problems import ProblemError
from triggers.gateway.request_body import URLENCODED, is_json_type, media_type_of, parse_json, parse_urlencoded
from triggers.webhook import cloud_events
from workflows.package.trigger_specs.webhook_spec import BodyKind, WebhookSpec

_MEDIA_TYPES: Mapping[BodyKind, str] = {"json": "application/json", "form": URLENCODED, "text": "text/plain"}
CloudEventMode = Literal["structured", "binary"]


@dataclass(frozen=True, slots=True)
class DeclaredContent:
    kind: BodyKind | None  # None: a CloudEvent without data
    cloud_event: CloudEventMode | None


def declared_content(spec: WebhookSpec, headers: Mapping[str, str]) -> DeclaredContent:
    """Reads the kind of content from the headers.

    Raises 415 for one that this trigger does not accept.
    """
    media = media_type_of(headers)
    if media.startswith(cloud_events.BATCHED):
        raise ProblemError(415, "batches of CloudEvents are not taken; send each event by itself")
    if media == cloud_events.STRUCTURED and "json" in spec.body_kinds:
        return DeclaredContent("json", "structured")
    mode: CloudEventMode | None = "binary" if cloud_events.is_binary_mode(headers) else None
    if mode == "binary" and "content-type" not in headers and "content-encoding" not in headers:
        return DeclaredContent(None, mode)
    kind = _body_kind(media)
    if kind not in spec.body_kinds:
        raise ProblemError(415, f"send {' or '.join(_MEDIA_TYPES[accepted] for accepted in spec.body_kinds)}")
    return DeclaredContent(kind, mode)


def parse_body(declared: DeclaredContent, headers: Mapping[str, str], raw_body: bytes) -> Any:
    """Raises 400 for a body that does not match its headers."""
    try:
        if declared.cloud_event == "binary":
            event = cloud_events.read_attributes(headers)
            cloud_events.check_cloud_event(event)
            if not raw_body and declared.kind != "json":
                return event
            return {**event, "data": _parse_cloud_event_data(declared.kind, raw_body)}
        body = _parse_kind(declared.kind, raw_body)
        if declared.cloud_event == "structured":
            cloud_events.check_cloud_event(body)
    except cloud_events.NotACloudEventError as error:
        raise ProblemError(400, str(error)) from None
    return body


def _body_kind(media: str) -> BodyKind | None:
    if is_json_type(media):
        return "json"
    if media == URLENCODED:
        return "form"
    return "text" if media.startswith("text/") else None


def _parse_kind(kind: BodyKind | None, raw_body: bytes) -> Any:
    if kind == "form":
        return _parse_fields(raw_body)
    if kind == "text":
        return {"text": _decode_text(raw_body)}
    return parse_json(raw_body)


def _parse_cloud_event_data(kind: BodyKind | None, raw_body: bytes) -> Any:
    if kind is None:
        raise ProblemError(400, "the CloudEvent has data; say of which content-type")
    return _decode_text(raw_body) if kind == "text" else _parse_kind(kind, raw_body)


def _decode_text(raw_body: bytes) -> str:
    try:
        return raw_body.decode("utf-8")
    except UnicodeDecodeError:
        raise ProblemError(400, "the body is not text in UTF-8") from None


def _parse_fields(raw_body: bytes) -> Any:
    """Reads form fields; a repeated field becomes a list.

    GitHub and Slack send JSON in a single field `payload`, which is then the event itself.
    """
    fields: dict[str, Any] = {}
    for name, value in parse_urlencoded(raw_body):
        before = fields.get(name)
        fields[name] = value if before is None else [*(before if isinstance(before, list) else [before]), value]
    if list(fields) == ["payload"] and isinstance(fields["payload"], str) and fields["payload"].startswith("{"):
        return parse_json(fields["payload"].encode())
    return fields
