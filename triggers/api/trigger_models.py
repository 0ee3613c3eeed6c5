"""Trigger models: requests and responses.

A response may have more fields than are declared here.
"""

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field
from pydantic.config import JsonDict

from triggers.api.field_types import Moment, Name, Ordinal, with_error
from triggers.api.run_models import RequestModel, ResponseModel
from triggers.control.trigger_pauses import MAX_NOTE_LENGTH
from triggers.control.trigger_status import TriggerStateName

SPEC_DESCRIPTION = "As in a package's triggers.yaml: name, type, and the fields of that type, without `apps`."
_EXAMPLE_SPEC: JsonDict = {"name": "nightly", "type": "schedule", "cron": "30 2 * * 1-5", "timezone": "Europe/London"}
ResumeFromField = Annotated[
    Literal["now", "token"] | Moment,
    with_error("must be 'now', 'token' or a time with an offset, such as 2026-01-31T08:00:00Z"),
]
TriggerType = Literal["schedule", "database_condition", "webhook", "form_submit", "run_finished"]


class NewTrigger(RequestModel):
    model_config = ConfigDict(
        json_schema_extra={"examples": [{"workflow": "DailyDigest", "app_id": "acme", "spec": _EXAMPLE_SPEC}]}
    )

    workflow: Name = Field(description="The package that it starts.")
    app_id: Name | None = Field(None, description="The app of the trigger. A key of one app may leave it out.")
    spec: dict[str, Any] = Field(description=SPEC_DESCRIPTION)


class EditedTrigger(RequestModel):
    model_config = ConfigDict(json_schema_extra={"examples": [{"revision": 1, "spec": _EXAMPLE_SPEC}]})

    spec: dict[str, Any] = Field(description=f"The whole spec. {SPEC_DESCRIPTION} Its name and type cannot change.")
    revision: Ordinal | None = Field(None, description="The revision that was read before, if If-Match is not sent.")


class PauseRequest(RequestModel):
    model_config = ConfigDict(json_schema_extra={"examples": [{"note": "the shop is being moved"}]})

    note: str = Field("", max_length=MAX_NOTE_LENGTH, description="A note, shown with the trigger.")


class ResumeRequest(RequestModel):
    model_config = ConfigDict(json_schema_extra={"examples": [{}, {"from": "now"}, {"from": "2026-01-31T08:00:00Z"}]})

    from_: ResumeFromField | None = Field(
        None,
        alias="from",
        description="Of a trigger on changes: where its stream resumes. `token` is where it stopped.",
    )


class FireRequest(RequestModel):
    model_config = ConfigDict(json_schema_extra={"examples": [{}, {"event": {"order": {"id": 7}}}]})

    event: dict[str, Any] = Field(
        default_factory=dict, description="Replaces the real event: a body, a change, the fields of a form."
    )


class BackfillRequest(RequestModel):
    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"from": "2026-01-01T00:00:00Z", "to": "2026-01-31T23:59:59Z", "dry_run": True}]
        }
    )

    from_: Moment = Field(alias="from", description="The first time, included.")
    to: Moment = Field(description="The last time, included; future times are left to their ticks.")
    overlap: Literal["one_by_one", "allow"] = Field(
        "one_by_one", description="Whether the runs of one app may be concurrent."
    )
    dry_run: bool = Field(False, description="Returns what would start, and starts nothing.")


class Pause(ResponseModel):
    at: datetime
    by: str
    note: str
    reason: str


class TriggerSummary(ResponseModel):
    trigger_id: str
    workflow: str
    name: str
    type: TriggerType
    origin: Literal["package", "api"] = Field(description="`api`: created at run time, over HTTP or by a command.")
    app_id: str | None = Field(description="Of one created at run time.")
    apps: list[str]
    apps_from: str | None = Field(description="Where it finds its apps when it fires, if not in `apps`.")
    state: TriggerStateName
    inactive: str | None = Field(description="Why it cannot start runs.")
    paused: Pause | None
    paused_apps: dict[str, Pause]
    last_fired_at: datetime | None
    next_at: datetime | None
    counts: dict[str, int] = Field(description="The results of all events so far.")
    revision: int = Field(description="Of one created at run time: grows with each edit.")
    answers_approved_by: str | None = Field(
        None, description="The key that approved the `ui_responses` of one created at run time; null: none."
    )


class Trigger(TriggerSummary):
    source: str = Field(description="The `source` of its CloudEvents.")
    spec: dict[str, Any] | None
    outlook: dict[str, Any] = Field(description="By type: the next times, an address, the position of a stream.")
    notes: list[dict[str, Any]] = Field(description="The newest events that started nothing, each with its reason.")


class TriggerPage(ResponseModel):
    items: list[TriggerSummary]
    next: str | None = Field(description="`cursor` for the next page; null on the last one.")


class PausedTrigger(ResponseModel):
    """`changed` is false when nothing was left to do. `said` is the state in words."""

    trigger_id: str
    app_id: str | None
    said: str
    changed: bool


class FiredRun(ResponseModel):
    app_id: str
    run_id: str


class FiredRuns(ResponseModel):
    runs: list[FiredRun]


class Backfill(ResponseModel):
    """Each of `times` for each app. `created` is null in a dry run."""

    trigger_id: str
    dry_run: bool
    runs: int = Field(description="The number of runs of these times, new and existing.")
    there_already: int
    created: int | None
    apps: int
    times: list[str] = Field(description="The nominal times, at most a hundred.")
