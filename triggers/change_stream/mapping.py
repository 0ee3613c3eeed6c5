"""From a change event to run requests, for one trigger."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from bson.objectid import ObjectId

from triggers.change_stream.plain import PlainEvent
from triggers.change_stream.watches import Watch
from triggers.happening import Happening, run_request, selected_app
from workers.store.run import RunRequest, quoted

LONGEST_KEY = 300


class Change:
    """An event as triggers see it: `data` is plain JSON for whom asks."""

    __slots__ = ("data", "document", "event", "happened", "id")

    def __init__(self, event: Mapping[str, Any], happened: datetime) -> None:
        self.id: str = event["_id"]["_data"]
        self.happened = happened
        self.event = event
        self.data = PlainEvent(event)
        self.document = _document_key(event)


def apps_of(watch: Watch, change: Change) -> Sequence[str]:
    """PayloadError when it names no usable app."""
    return watch.trigger.apps or (selected_app(watch.spec.app_id, change.data),)


def request_of(watch: Watch, app_id: str, change: Change, fired_at: datetime) -> RunRequest:
    """PayloadError when the event cannot be mapped."""
    happening = Happening(watch.trigger, app_id, change.id, fired_at, change.data)
    key = order_key(watch, app_id, change)
    return run_request(happening, order_key=key, order_seq=None if key is None else change.id)


def order_key(watch: Watch, app_id: str, change: Change) -> str | None:
    """Runs of one key go one after the other."""
    if watch.spec.ordering == "none":
        return None
    if watch.spec.ordering == "strict":
        return _bounded(f"{watch.id}/{quoted(app_id)}")
    return debounce_key(watch, app_id, change)


def debounce_key(watch: Watch, app_id: str, change: Change) -> str:
    return _bounded(f"{watch.id}/{quoted(app_id)}/{change.document}")


def _document_key(event: Mapping[str, Any]) -> str:
    """The same for each change of one document, and for no other's: an object id is not the text that looks alike."""
    key = event.get("documentKey")
    id_ = key["_id"] if isinstance(key, dict) and key.keys() == {"_id"} else key
    said = str(id_) if type(id_) is ObjectId else json.dumps(id_) if type(id_) is str else repr(id_)
    return f"{event['ns'].get('coll', '')}/{said}"


def _bounded(key: str) -> str:
    """Keys of documents may be as long as an index allows; ours stand in an index together with others."""
    if len(key) <= LONGEST_KEY:
        return key
    return f"{key[:100]}…{hashlib.sha256(key.encode()).hexdigest()}"
