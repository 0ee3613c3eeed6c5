"""The record of a trigger: what its document in `triggers` says beside the spec. A document is made when there is
something to say, so a package's trigger that nothing has happened to has none."""

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
    """Until somebody resumes it, or its budget has money again. `by` says who: a user, a key's name, what noticed the
    failures, or which budget is spent."""

    at: datetime
    by: str
    note: str = ""
    reason: PauseReason = "operator"


@dataclass(frozen=True, slots=True)
class TriggerRecord:
    id: str
    workflow: str
    name: str
    app_id: str | None  # of one that was made at run time
    spec: TriggerSpec | None  # of one that was made at run time, and can still be read
    revision: int
    paused: Pause | None
    paused_apps: Mapping[str, Pause]
    counts: Mapping[str, int]  # accepted, merged, duplicate, skipped.<reason>, refused.<reason>
    notes: Sequence[Document]  # the newest skips, drops and duplicates, each with its reason; see `notes`
    last_fired_at: datetime | None
    document: Document = field(repr=False)  # what else a kind of trigger keeps there: `schedule`

    @property
    def trigger(self) -> Trigger | None:
        return None if self.spec is None else Trigger(self.workflow, self.spec, self.app_id, self.revision)

    def pause_of(self, app_id: str | None) -> Pause | None:
        """Why it starts nothing for that app."""
        return self.paused or (None if app_id is None else self.paused_apps.get(app_id))

    def last_resumed_at(self, app_id: str | None = None) -> datetime | None:
        """When the trigger, or the trigger for this app, was last resumed."""
        apps = self.document.get("resumed_apps")
        own = apps.get(app_field_name(app_id)) if isinstance(apps, Mapping) and app_id is not None else None
        times = [time for time in (self.document.get("resumed_at"), own) if isinstance(time, datetime)]
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
        paused_apps={each["app_id"]: Pause(**each["pause"]) for each in document.get("paused_apps", {}).values()},
        counts=_flatten_counts(document.get("counts", {})),
        notes=document.get("notes", ()),
        last_fired_at=document.get("last_fired_at"),
        document=document,
    )


def spec_document(spec: TriggerSpec) -> dict[str, Any]:
    """Only what was given: a default that changes in a later version changes for it too. As JSON has it, so that
    neither operators in a filter nor dots in a key mean anything to the store."""
    return {"type": spec.type, "json": spec.model_dump_json(by_alias=True, exclude_unset=True)}


def app_field_name(app_id: str) -> str:
    """A name under which an app can stand in a document: neither dots nor dollars."""
    return quote(app_id, safe="").replace(".", "%2E").replace("$", "%24")


def _read_spec(document: Document) -> TriggerSpec | None:
    """None also for one that a newer version wrote: it is shown as unreadable, and starts nothing here."""
    kept = document.get("spec")
    if kept is None:
        return None
    model = SPEC_BY_TYPE.get(kept["type"])
    try:
        return None if model is None else model.model_validate_json(kept["json"])
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
