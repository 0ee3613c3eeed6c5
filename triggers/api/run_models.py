"""Models of runs: what callers send, and what they are told. What is told may have more fields than are named here."""

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from triggers.api.field_types import MAX_NAME, WHOLE, Moment, Name, with_error
from workers.store.run import HoldKind, RunState
from workflows.package.trigger_specs.priority import DEFAULT_PRIORITY, MAX_PRIORITY, MIN_PRIORITY

Priority = Annotated[
    int,
    Field(ge=MIN_PRIORITY, le=MAX_PRIORITY),
    WHOLE,
    with_error(f"must be a whole number from {MIN_PRIORITY} to {MAX_PRIORITY}"),
]
QuestionRef = Annotated[
    Annotated[int, Field(ge=1, le=10**9)] | Annotated[str, Field(pattern=r"^q_[A-Za-z0-9_-]{1,100}$")],
    WHOLE,
    with_error("must be the number of a question that the run asks, such as 1, or its id"),
]
NonEmptyText = Annotated[str, Field(pattern=r"\S"), with_error("must be text, and not empty")]
Person = Annotated[
    str,
    Field(pattern=r"\S", max_length=MAX_NAME),
    with_error(f"must be text of up to {MAX_NAME} characters, and not empty"),
]


class RequestModel(BaseModel):
    """Strict: the text "5" is no number, and a field that nobody knows is a mistake."""

    model_config = ConfigDict(extra="forbid", strict=True)


class ResponseModel(BaseModel):
    model_config = ConfigDict(extra="allow")


class NewRun(RequestModel):
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
    priority: Priority = Field(DEFAULT_PRIORITY, description="9 is most urgent: it starts first among its app's.")
    not_before: Moment | None = Field(None, description="Accepted now, started at this time.")


class ReplayRequest(RequestModel):
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


class RunAnswer(RequestModel):
    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"question": 1, "message": "Yes, go ahead."},
                {"question": 2, "responses": {"approve": {"verdict": "yes"}}, "by": "the head of finance"},
            ],
            "anyOf": [
                {"required": ["message"], "properties": {"message": {"type": "string"}}},
                {"required": ["responses"], "properties": {"responses": {"type": "object", "minProperties": 1}}},
            ],
        }
    )

    question: QuestionRef = Field(
        description="`number` or `id` of one of the run's `questions`: the answer is for this one and no other."
    )
    message: NonEmptyText | None = Field(
        None, description="What the user says, where the question is of kind `message`."
    )
    responses: dict[str, dict[str, Any]] | None = Field(
        None, description="What the question's tool gets, by its keys: `{tool: {key: value}}`."
    )
    by: Person | None = Field(
        None, description="Who answers, in the caller's words: kept as `name` beside `by`, the name of the key."
    )


class AcceptedRun(ResponseModel):
    run_id: str
    status_url: str


class RunTrigger(ResponseModel):
    type: str
    name: str
    id: str
    fired_at: Moment
    nominal_at: Moment | None = None


class Usage(ResponseModel):
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


class OutcomeError(ResponseModel):
    type: str
    message: str
    agent: str | None = None
    turn: int | None = None
    tool: str | None = Field(None, description="Of a run that a failed tool has ended.")


class Outcome(ResponseModel):
    kind: str
    reason: str
    error: OutcomeError | None = None
    stranded: bool = Field(
        False, description="The chat ended after an agent none of whose conditions held in this run; else left out."
    )


class RunSummary(ResponseModel):
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
    failed_tools: int = Field(
        0, description="Calls of the package's own code that failed: tools, lifecycle tools, hooks."
    )
    priority: int
    package_version: str | None
    user_id: str | None
    chat_id: str
    created_at: Moment
    started_at: Moment | None
    finished_at: Moment | None
    not_before: Moment | None
    usage: Usage | None = Field(description="Totals of a run that has ended or parked.")


class Question(ResponseModel):
    """What a run asks a person. One that an older version asked has neither `id` nor `arguments`."""

    number: int = Field(description="Unique in the run: 1 is the first question that it ever asked.")
    kind: str = Field(description="`tool`: answer with `responses`. `message`: answer with `message`.")
    id: str | None = Field(None, description="Of this run, call, arguments and payload, and no other.")
    agent: str | None = None
    turn: int | None = None
    text: str | None = Field(None, description="What is asked, in a sentence.")
    tool: str | None = Field(None, description="What the answer's `responses` name.")
    function: str | None = Field(None, description="The function of the package that asks.")
    arguments: Any = Field(None, description="Of that function, as the model sent them.")
    payload: Any = Field(None, description="What the function shows.")
    title: str | None = None
    choices: list[str] | None = Field(None, description="The only values that the first of `keys` takes.")
    keys: list[str] | None = Field(None, description="What the package waits for.")


class Answer(ResponseModel):
    """What was answered. One that an older version kept has neither `number` nor `question`."""

    at: Moment
    by: str = Field(description="The key's name, the user of a command, or the trigger of a standing answer.")
    name: str | None = Field(None, description="What the caller said of itself.")
    number: int | None = Field(None, description="Of the question.")
    standing: bool | None = Field(None, description="True where a trigger had answered in advance.")
    message: str | None = None
    responses: dict[str, Any] | None = None
    question: dict[str, Any] | None = Field(None, description="What it was an answer to.")


class Run(RunSummary):
    input: dict[str, Any]
    message: str | None
    context: dict[str, Any]
    question: Question | None = Field(description="The first of `questions`; null where nothing is asked.")
    questions: list[Question] = Field(description="What a run in the state needs_human asks, by number.")
    answers: list[Answer] = Field(description="What was answered so far, each with its question.")
    dedupe_key: str
    correlation_id: str
    parent_run_id: str | None
    replay_of: str | None
    keys_of: str | None = Field(None, description="The run whose idempotency keys its tools are given; null: its own.")
    usage: Usage = Field(description="Totals up to now, from the ledger.")
    replays: list[str] = Field(description="The runs that were started anew from this one.")


class Turn(ResponseModel):
    number: int
    agent: str
    text: str


class RunPage(BaseModel):
    items: list[RunSummary]
    next: str | None = Field(description="`cursor` for the next page; null on the last one.")


class TurnPage(BaseModel):
    items: list[Turn]
    next: str | None = Field(description="`cursor` for the next page; null on the last one.")


class ChangedRun(ResponseModel):
    """`changed` is false where nothing was left to do; `said` tells people what is so now."""

    run_id: str
    state: RunState
    said: str
    changed: bool
    new_run_id: str | None = None


class AnsweredRun(ResponseModel):
    run_id: str
    answer: int = Field(description="The number of the question that has this answer.")
    repeated: bool = Field(description="True where it was there already.")
    waiting: list[int] = Field(description="Numbers of the questions that still wait: the run goes on when none does.")
