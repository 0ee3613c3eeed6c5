"""Trigger records: the documents of the collection `triggers`.

A package's trigger has a document only after its first event or pause.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal
from urllib.parse import quote

from pydantic import ValidationError

from triggers.register.trigger import Trigger
from workflows.package.trigger_specs.trigger_spec import SPEC_BY_TYPE, TriggerSpec

Document = Mapping[str, Any]
PauseReason = Literal["operator", "failures", "budget"]


@dataclass(frozen=True, slots=True)
class Pause:
    """A pause until an operator resumes the trigger, or its budget has room again.

    `by` is a user, a key's name, the component that counted failures, or the exhausted budget.
    """

    at: datetime
    by: str
    note: str = ""
    reason: PauseReason = "operator"


@dataclass(frozen=True, slots=True)
class TriggerRecord:
    id: str
    workflow: str
    name: str
    app_id: str | None  # of one created at run time
    spec: TriggerSpec | None  # of one created at run time, if this version can read it
    revision: int
    paused: Pause | None
    paused_apps: Mapping[str, Pause]
    counts: Mapping[str, int]  # accepted, merged, duplicate, skipped.<reason>, refused.<reason>
    notes: Sequence[Document]  # the newest skips, drops and duplicates, each with its reason
    last_fired_at: datetime | None
    document: Document = field(repr=False)  # has also what the kind stores there, such as `schedule`

    @property
    def trigger(self) -> Trigger | None:
        return None if self.spec is None else Trigger(self.workflow, self.spec, self.app_id, self.revision)

    def pause_of(self, app_id: str | None) -> Pause | None:
        """Returns the pause that applies to this app."""
        return self.paused or (None if app_id is None else self.paused_apps.get(app_id))

    def last_resumed_at(self, app_id: str | None = None) -> datetime | None:
        """Returns when the trigger was last resumed, as a whole or for this app."""
        apps = self.document.get("resumed_apps")
        for_app = apps.get(app_field_name(app_id)) if isinstance(apps, Mapping) and app_id is not None else None
        times = [time for time in (self.document.get("resumed_at"), for_app) if isinstance(time, datetime)]
        return max(times, default=None)


def read_record(document: Document) -> TriggerRecord:
    return TriggerRecord(
        id=document["_id"],
        workflow=document["workflow"],
        name=document["name"],
        app_id=document.get("app_id"),
        spec=_read_spec(document),
        revision=document.get("revision", 0),
        paused=_read_pause(document.get("paused")),
        paused_apps={entry["app_id"]: Pause(**entry["pause"]) for entry in document.get("paused_apps", {}).values()},
        counts=_flatten_counts(document.get("counts", {})),
        notes=document.get("notes", ()),
        last_fired_at=document.get("last_fired_at"),
        document=document,
    )


def spec_document(spec: TriggerSpec) -> dict[str, Any]:
    """Stores only the fields that were set, so that a later version's defaults apply.

    The spec is stored as JSON text: operators in a filter and dots in a key have no meaning to the store then.
    """
    return {"type": spec.type, "json": spec.model_dump_json(by_alias=True, exclude_unset=True)}


def app_field_name(app_id: str) -> str:
    """Escapes an app id for use as a field name, which has neither dots nor dollars."""
    return quote(app_id, safe="").replace(".", "%2E").replace("$", "%24")


def _read_spec(document: Document) -> TriggerSpec | None:
    """Returns None also for the spec of a newer version, which starts nothing."""
    stored = document.get("spec")
    if stored is None:
        return None
    model = SPEC_BY_TYPE.get(stored["type"])
    try:
        return None if model is None else model.model_validate_json(stored["json"])
    except ValidationError:
        return None


def _read_pause(document: Document | None) -> Pause | None:
    return None if document is None else Pause(**document)


def _flatten_counts(counts: Document, prefix: str = "") -> dict[str, int]:
    found: dict[str, int] = {}
    for name, value in counts.items():
        found |= (
            _flatten_counts(value, f"{prefix}{name}.") if isinstance(value, Mapping) else {prefix + name: int(value)}
        )
    return found
