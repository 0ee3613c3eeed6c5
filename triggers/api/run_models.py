"""Run models: requests and responses.

A response may have more fields than are declared here.
"""

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
    """Validates strictly: the text "5" is no number, and an unknown field is an error."""

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
    app_id: Name | None = Field(None, description="The app of the run. A key of one app may leave it out.")
    input: dict[str, Any] = Field(default_factory=dict, description="Fills the package's inputs and runtime variables.")
    message: str | None = Field(None, description="Replaces the package's first message.")
    user_id: Name | None = Field(None, description="The user that the run acts for.")
    chat_id: Name | None = Field(None, description="The conversation it belongs to. Default: the run's own id.")
    priority: Priority = Field(DEFAULT_PRIORITY, description="9 is most urgent: it starts first among its app's runs.")
    not_before: Moment | None = Field(None, description="Starts at this time, though it is accepted now.")


class ReplayRequest(RequestModel):
    again: bool = Field(False, description="Replays it once more, if it was replayed before.")
    repeat_done: bool = Field(
        False,
        description="Replays a run whose tool calls or write-backs succeeded, and repeats these. Without it such a run "
        "is refused (409), and `done` lists them.",
    )
    new_keys: bool = Field(
        False,
        description="Gives tools new idempotency keys. By default a replay of a run that has not succeeded uses the "
        "run's own, so that services that check them do nothing twice.",
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
    message: NonEmptyText | None = Field(None, description="The user's message, for a question of kind `message`.")
    responses: dict[str, dict[str, Any]] | None = Field(
        None, description="The values for the question's tool, by key: `{tool: {key: value}}`."
    )
    by: Person | None = Field(
        None, description="The person who answers: stored as `name` beside `by`, the name of the key."
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
    cost_usd: float | None = Field(description="Of the calls with a known price; null when there is none.")
    missing: int = Field(description="Calls without usage: they count as 0 tokens.")
    estimated: int = Field(0, description="Calls with estimated usage, since none was reported.")
    unpriced: int = Field(0, description="Calls without a known price, not included in `cost_usd`.")


class OutcomeError(ResponseModel):
    type: str
    message: str
    agent: str | None = None
    turn: int | None = None
    tool: str | None = Field(None, description="The tool whose failure ended the run.")


class Outcome(ResponseModel):
    kind: str
    reason: str
    error: OutcomeError | None = None
    stranded: bool = Field(False, description="The chat ended after an agent whose conditions never held in this run.")


class RunSummary(ResponseModel):
    """A run without its input, context and history, which may be large."""

    run_id: str
    app_id: str
    workflow: str
    state: RunState
    hold: HoldKind | None
    trigger: RunTrigger
    outcome: Outcome | None
    attempt: int
    turn: int
    failed_tools: int = Field(0, description="Failed calls of the package's code: tools, lifecycle tools, hooks.")
    priority: int
    package_version: str | None
    user_id: str | None
    chat_id: str
    created_at: Moment
    started_at: Moment | None
    finished_at: Moment | None
    not_before: Moment | None
    usage: Usage | None = Field(description="Totals of an ended or parked run.")


class Question(ResponseModel):
    """A question to a person.

    One of an older version has neither `id` nor `arguments`.
    """

    number: int = Field(description="Unique in the run: 1 is its first question.")
    kind: str = Field(description="`tool`: answer with `responses`. `message`: answer with `message`.")
    id: str | None = Field(None, description="Identifies run, call, arguments and payload.")
    agent: str | None = None
    turn: int | None = None
    text: str | None = Field(None, description="The question as a sentence.")
    tool: str | None = Field(None, description="The key in the answer's `responses`.")
    function: str | None = Field(None, description="The package's function that asks.")
    arguments: Any = Field(None, description="The function's arguments, as the model sent them.")
    payload: Any = Field(None, description="The content that the function shows.")
    title: str | None = None
    choices: list[str] | None = Field(None, description="The allowed values of the first of `keys`.")
    keys: list[str] | None = Field(None, description="The keys that the package waits for.")


class Answer(ResponseModel):
    """An answer. One of an older version has neither `number` nor `question`."""

    at: Moment
    by: str = Field(description="The key's name, the user of a command, or the trigger of a standing answer.")
    name: str | None = Field(None, description="The name that the caller gave.")
    number: int | None = Field(None, description="The number of its question.")
    standing: bool | None = Field(None, description="True for an answer in advance by a trigger.")
    message: str | None = None
    responses: dict[str, Any] | None = None
    question: dict[str, Any] | None = Field(None, description="The question that it answers.")


class Run(RunSummary):
    input: dict[str, Any]
    message: str | None
    context: dict[str, Any]
    question: Question | None = Field(description="The first of `questions`; null without one.")
    questions: list[Question] = Field(description="The open questions of a run in state needs_human, by number.")
    answers: list[Answer] = Field(description="The answers so far, each with its question.")
    dedupe_key: str
    correlation_id: str
    parent_run_id: str | None
    replay_of: str | None
    keys_of: str | None = Field(None, description="The run whose idempotency keys its tools use; null: its own.")
    usage: Usage = Field(description="Totals so far, from the ledger.")
    replays: list[str] = Field(description="The replays of this run.")


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
    """`changed` is false when nothing was left to do. `said` is the state in words."""

    run_id: str
    state: RunState
    said: str
    changed: bool
    new_run_id: str | None = None


class AnsweredRun(ResponseModel):
    run_id: str
    answer: int = Field(description="The number of the question that has this answer.")
    repeated: bool = Field(description="True if the question already had it.")
    waiting: list[int] = Field(description="The numbers of open questions: the run goes on when there is none.")
