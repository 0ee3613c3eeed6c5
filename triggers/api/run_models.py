"""Models of runs: what callers send, and what they are told. What is told may have more fields than are named here."""

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from triggers.api.field_types import MAX_NAME, WHOLE, Moment, Name, Ordinal, said
from workers.store.run import HoldKind, RunState
from workflows.package.priority import LEAST_URGENT, MOST_URGENT, USUAL

Priority = Annotated[
    int,
    Field(ge=LEAST_URGENT, le=MOST_URGENT),
    WHOLE,
    said(f"must be a whole number from {LEAST_URGENT} to {MOST_URGENT}"),
]
Words = Annotated[str, Field(pattern=r"\S"), said("must be text, and not empty")]
Person = Annotated[
    str,
    Field(pattern=r"\S", max_length=MAX_NAME),
    said(f"must be text of up to {MAX_NAME} characters, and not empty"),
]


class Asked(BaseModel):
    """Strict: the text "5" is no number, and a field that nobody knows is a mistake."""

    model_config = ConfigDict(extra="forbid", strict=True)


class Told(BaseModel):
    model_config = ConfigDict(extra="allow")


class NewRun(Asked):
    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"workflow": "DailyDigest", "app_id": "acme", "input": {"report": "weekly"}, "priority": 7}]
        }
    )

    workflow: Name = Field(description="The name of a package.")
    app_id: Name | None = Field(None, description="Whose run it is. A key of one app may leave it out.")
    input: dict[str, Any] = Field(default_factory=dict, description="Fills the package's inputs and runtime variables.")
    message: str | None = Field(None, description="In place of the package's first message.")
    user_id: Name | None = Field(None, description="On whose behalf.")
    chat_id: Name | None = Field(None, description="The conversation it belongs to. Default: the run's own id.")
    priority: Priority = Field(USUAL, description="9 is most urgent: it starts first among its app's.")
    not_before: Moment | None = Field(None, description="Accepted now, started at this time.")


class ReplayOrder(Asked):
    again: bool = Field(False, description="One more, though it was replayed before.")
    repeat_done: bool = Field(
        False,
        description="Also if tool calls or write-backs of the run succeeded, which a replay makes again. Without it "
        "such a run is refused (409), and `done` lists them.",
    )
    new_keys: bool = Field(
        False,
        description="Give tools new idempotency keys. By default a replay of a run that has not succeeded goes on "
        "with the run's own, so that a service that knows them does nothing twice.",
    )


class RunAnswer(Asked):
    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"message": "Yes, go ahead.", "question": 1}, {"responses": {"approve": {"approved": True}}}],
            "anyOf": [
                {"required": ["message"], "properties": {"message": {"type": "string"}}},
                {"required": ["responses"], "properties": {"responses": {"type": "object", "minProperties": 1}}},
            ],
        }
    )

    message: Words | None = Field(None, description="What the user says.")
    responses: dict[str, dict[str, Any]] | None = Field(None, description="What each tool gets, by its keys.")
    question: Ordinal | None = Field(
        None, description="`question.number` of the run: the answer is for this question and no other."
    )
    by: Person | None = Field(None, description="Who answers. Default: the name of the key.")


class AcceptedRun(Told):
    run_id: str
    status_url: str


class RunTrigger(Told):
    type: str
    name: str
    id: str
    fired_at: Moment
    nominal_at: Moment | None = None


class Usage(Told):
    calls: int
    input_tokens: int
    cached_input_tokens: int
    cache_write_tokens: int
    output_tokens: int
    reasoning_tokens: int
    cost_usd: float | None = Field(description="Of the calls whose price is known; null where it is of none.")
    missing: int = Field(description="Calls without usage: they count as 0 tokens.")
    estimated: int = Field(0, description="Calls whose usage was estimated, as none was reported.")
    unpriced: int = Field(0, description="Calls without a known price, which `cost_usd` leaves out.")


class OutcomeError(Told):
    type: str
    message: str
    agent: str | None = None
    turn: int | None = None


class Outcome(Told):
    kind: str
    reason: str
    error: OutcomeError | None = None


class RunSummary(Told):
    """A run without what may be large: its input, its context and its history."""

    run_id: str
    app_id: str
    workflow: str
    state: RunState
    hold: HoldKind | None
    trigger: RunTrigger
    outcome: Outcome | None
    attempt: int
    turn: int
    priority: int
    package_version: str | None
    user_id: str | None
    chat_id: str
    created_at: Moment
    started_at: Moment | None
    finished_at: Moment | None
    not_before: Moment | None
    usage: Usage | None = Field(description="Totals of a run that has ended or parked.")


class Run(RunSummary):
    input: dict[str, Any]
    message: str | None
    context: dict[str, Any]
    question: dict[str, Any] | None = Field(description="What a run in the state needs_human asks.")
    dedupe_key: str
    correlation_id: str
    parent_run_id: str | None
    replay_of: str | None
    keys_of: str | None = Field(None, description="The run whose idempotency keys its tools are given; null: its own.")
    usage: Usage = Field(description="Totals up to now, from the ledger.")
    replays: list[str] = Field(description="The runs that were started anew from this one.")


class Turn(Told):
    number: int
    agent: str
    text: str


class RunPage(BaseModel):
    items: list[RunSummary]
    next: str | None = Field(description="`cursor` for the next page; null on the last one.")


class TurnPage(BaseModel):
    items: list[Turn]
    next: str | None = Field(description="`cursor` for the next page; null on the last one.")


class ChangedRun(Told):
    """`changed` is false where nothing was left to do; `said` tells people what is so now."""

    run_id: str
    state: RunState
    said: str
    changed: bool
    new_run_id: str | None = None


class AnsweredRun(Told):
    """`answer`: the first answer of a run is 1. `repeated`: it was there already."""

    run_id: str
    answer: int
    repeated: bool
