"""From a change event to run requests, for one trigger."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from bson.objectid import ObjectId

from triggers.change_stream.plain import PlainEvent
from triggers.change_stream.watches import ChangeTrigger
from triggers.happening import Occurrence, build_run_request, select_app
from workers.store.run import RunRequest, quoted

MAX_KEY_LENGTH = 300


class ChangeEvent:
    """An event as triggers see it: `data` is plain JSON for whom asks."""

    __slots__ = ("data", "document", "event", "event_time", "id")

    def __init__(self, event: Mapping[str, Any], event_time: datetime) -> None:
        self.id: str = event["_id"]["_data"]
        self.event_time = event_time
        self.event = event
        self.data = PlainEvent(event)
        self.document = _document_key(event)


def change_apps(change_trigger: ChangeTrigger, change: ChangeEvent) -> Sequence[str]:
    """PayloadError when it names no usable app."""
    return change_trigger.trigger.apps or (select_app(change_trigger.spec.app_id, change.data),)


def build_change_request(change_trigger: ChangeTrigger, app_id: str, change: ChangeEvent, fired_at: datetime) -> RunRequest:
    """PayloadError when the event cannot be mapped."""
    happening = Occurrence(change_trigger.trigger, app_id, change.id, fired_at, change.data)
    key = order_key(change_trigger, app_id, change)
    return build_run_request(happening, order_key=key, order_seq=None if key is None else change.id)


def order_key(change_trigger: ChangeTrigger, app_id: str, change: ChangeEvent) -> str | None:
    """Runs of one key go one after the other."""
    if change_trigger.spec.ordering == "none":
        return None
    if change_trigger.spec.ordering == "strict":
        return _shorten_key(f"{change_trigger.id}/{quoted(app_id)}")
    return debounce_key(change_trigger, app_id, change)


def debounce_key(change_trigger: ChangeTrigger, app_id: str, change: ChangeEvent) -> str:
    return _shorten_key(f"{change_trigger.id}/{quoted(app_id)}/{change.document}")


def _document_key(event: Mapping[str, Any]) -> str:
    """The same for each change of one document, and for no other's: an object id is not the text that looks alike."""
    key = event.get("documentKey")
    id_ = key["_id"] if isinstance(key, dict) and key.keys() == {"_id"} else key
    said = str(id_) if type(id_) is ObjectId else json.dumps(id_) if type(id_) is str else repr(id_)
    return f"{event['ns'].get('coll', '')}/{said}"


def _shorten_key(key: str) -> str:
    """Keys of documents may be as long as an index allows; ours stand in an index together with others."""
    if len(key) <= MAX_KEY_LENGTH:
        return key
    return f"{key[:100]}…{hashlib.sha256(key.encode()).hexdigest()}"
