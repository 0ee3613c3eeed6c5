"""Trigger specs: what a package declares as a reason to run, validated as far as no server is needed."""

import re
from datetime import timedelta
from typing import Annotated, Any, Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    WithJsonSchema,
    model_validator,
)

from workflows.context.value_types import is_of_type, is_one_of
from workflows.package.cron import check_cron
from workflows.package.jmespath_problems import jmespath_problem
from workflows.package.priority import USUAL, Priority
from workflows.package.ui_responses import UIResponses

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")
_DURATION = re.compile(r"^\s*(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)\s*$")
_UNIT_S = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400}
LONGEST_S = 3650 * 86400


def parse_duration(value: object) -> timedelta:
    """`15m`, `60s`, `1h`; a bare number is seconds."""
    if isinstance(value, timedelta):
        return value
    match = _DURATION.match(value) if isinstance(value, str) else None
    if match is not None:
        seconds = float(match[1]) * _UNIT_S[match[2]]
    elif isinstance(value, int | float) and not isinstance(value, bool):
        seconds = value
    else:
        raise ValueError("write a duration such as 30s, 15m or 1h")
    if not 0 <= seconds <= LONGEST_S:
        raise ValueError("write a duration of at most 3650d, not below zero")
    return timedelta(seconds=seconds)


class FieldError(ValueError):
    """What several fields say together is wrong; `field` is the one that an author looks at first."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field


def _check_expression(text: str) -> str:
    problem = jmespath_problem(text)
    if problem is not None:
        raise ValueError(problem)
    return text


def _check_mapping_value(value: Any) -> Any:
    """A string that begins with `=` is an expression; anything else a literal."""
    if isinstance(value, str) and value.startswith("="):
        _check_expression(value[1:])
    elif isinstance(value, dict):
        for item in value.values():
            _check_mapping_value(item)
    elif isinstance(value, list):
        for item in value:
            _check_mapping_value(item)
    return value


def _check_zone(name: str) -> str:
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ValueError("is not an IANA time zone; write one such as Europe/London") from None
    return name


def _check_name(name: str) -> str:
    if not NAME.fullmatch(name):
        raise ValueError("use letters, digits, dots, dashes and underscores, at most 100, a letter or digit first")
    return name


_DURATION_SCHEMA: dict[str, Any] = {"type": ["string", "number"], "description": "Such as 30s, 15m or 1h"}
Duration = Annotated[
    timedelta,
    BeforeValidator(parse_duration),
    PlainSerializer(lambda duration: f"{duration.total_seconds():g}s", when_used="json"),  # as it can be read again
    WithJsonSchema(_DURATION_SCHEMA),
]
Expression = Annotated[str, AfterValidator(_check_expression)]
Mapped = Annotated[Any, AfterValidator(_check_mapping_value)]
Name = Annotated[str, AfterValidator(_check_name)]


class _Spec(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class _Trigger(_Spec):
    name: Name
    description: str = ""
    input: dict[str, Mapped] = Field(default_factory=dict)
    message: Mapped = None
    apps: tuple[Name, ...] = ()
    app_id: Mapped = None  # a literal app, or =expr over the event
    priority: Priority = Field(default=USUAL, description="9 is most urgent")
    ui_responses: UIResponses = Field(default_factory=dict, description="What tools that ask a person get: {tool: {…}}")

    @model_validator(mode="after")
    def _one_way_to_name_apps(self) -> "_Trigger":
        if self.apps and self.app_id is not None:
            raise FieldError("app_id", "give either apps or app_id, not both")
        return self


def _check_cron(cron: str, timezone: str) -> None:
    try:
        check_cron(cron, timezone)
    except ValueError as error:
        raise FieldError("cron", str(error)) from None


class Misfire(_Spec):
    grace: Duration = Field(default=timedelta(seconds=60), json_schema_extra={"default": "60s"})
    policy: Literal["skip", "latest", "all"] = "latest"
    max: int = Field(default=10, ge=1, le=1000)


class ScheduleSpec(_Trigger):
    type: Literal["schedule"] = "schedule"
    cron: str | None = None
    every: Duration | None = None
    timezone: Annotated[str, AfterValidator(_check_zone)] = "UTC"
    overlap: Literal["skip", "allow"] = "skip"
    misfire: Misfire = Misfire()

    @model_validator(mode="after")
    def _one_clock(self) -> "ScheduleSpec":
        if self.cron is None and self.every is None:
            raise ValueError("give either cron or every")
        if self.cron is not None and self.every is not None:
            raise FieldError("every", "give either cron or every")
        if self.every is not None and self.every < timedelta(seconds=1):
            raise FieldError("every", "every must be at least 1s")
        if self.cron is not None:
            _check_cron(self.cron, self.timezone)
        return self


class ChangeSpec(_Trigger):
    type: Literal["database_condition"] = "database_condition"
    database: str = Field(min_length=1)
    collection: str = Field(min_length=1)
    operations: tuple[Literal["insert", "update", "replace", "delete"], ...] = ("insert", "update", "replace")
    when: Expression | None = None
    on_history_lost: Literal["suspend", "resume_now"] = "suspend"


_SECRET_SCHEMA: dict[str, Any] = {"type": ["string", "array"], "description": "env:NAME or file:PATH; a list rotates"}


class Verification(_Spec):
    scheme: Literal["standard", "github"]
    secret: Annotated[tuple[str, ...], WithJsonSchema(_SECRET_SCHEMA)] = Field(min_length=1)  # several: a rotation
    tolerance: Duration = Field(default=timedelta(seconds=300), json_schema_extra={"default": "300s"})

    @model_validator(mode="before")
    @classmethod
    def _one_secret_is_a_list_of_one(cls, data: Any) -> Any:
        if isinstance(data, dict) and isinstance(data.get("secret"), str):
            return {**data, "secret": (data["secret"],)}
        return data

    @model_validator(mode="after")
    def _references_only(self) -> "Verification":
        if any(not reference.startswith(("env:", "file:")) for reference in self.secret):
            raise FieldError("secret", "write env:NAME or file:PATH, never the secret itself")
        return self


class WebhookSpec(_Trigger):
    type: Literal["webhook"] = "webhook"
    verify: Verification
    when: Expression | None = None
    dedupe: Mapped = None


class FormInput(_Spec):
    type: Literal["string", "integer", "number", "boolean"] = "string"
    format: Literal["email", "date", "uri"] | None = None
    required: bool = False
    default: Any = None
    enum: tuple[Any, ...] = ()
    description: str = ""
    max_length: int = Field(default=10_000, ge=1)

    @model_validator(mode="after")
    def _default_is_a_valid_answer(self) -> "FormInput":
        if self.default is None:
            return self
        if not is_of_type(self.default, self.type):
            raise FieldError("default", f"default is not of type {self.type}; change the default or the type")
        if self.enum and not is_one_of(self.default, self.enum):
            raise FieldError("default", "default is not one of the values in enum; add it there or change it")
        return self


class FormSpec(_Trigger):
    type: Literal["form_submit"] = "form_submit"
    inputs: dict[str, FormInput] = Field(min_length=1)


class RunFinishedSpec(_Trigger):
    """After another run. Read, so that a typo is found; nothing is started by it yet."""

    type: Literal["run_finished"] = "run_finished"
    workflow: Name
    outcome: str | tuple[str, ...] = ()


TriggerSpec = ScheduleSpec | ChangeSpec | WebhookSpec | FormSpec

SPEC_BY_TYPE: dict[str, type[TriggerSpec]] = {
    "schedule": ScheduleSpec,
    "scheduled": ScheduleSpec,
    "cron": ScheduleSpec,
    "cron_schedule": ScheduleSpec,
    "database_condition": ChangeSpec,
    "change_stream": ChangeSpec,
    "db": ChangeSpec,
    "webhook": WebhookSpec,
    "http": WebhookSpec,
    "endpoint": WebhookSpec,
    "form_submit": FormSpec,
    "form": FormSpec,
}
NOT_OURS = {"chat", "chat_start", "user"}
CRON_FIELDS = ("cron", "cron_schedule", "schedule", "expression")
UNSUPPORTED = {
    "manual": "nobody calls its endpoint here: start runs with `unattended enqueue`, or declare a webhook",
    "event": "events inside of an application do not reach a worker: declare a webhook or a database_condition",
    "threshold": "nobody measures what its condition names: declare a schedule, or a database_condition",
}
