"""A change in MongoDB as a trigger: where to look, which changes count, and in which order their runs go."""

from datetime import timedelta
from typing import Any, Literal

from pydantic import Field, field_validator

from workflows.package.trigger_specs.trigger import BaseTrigger
from workflows.package.trigger_specs.values import Duration, Expression, Spec

# What a server lets follow a change stream, less what could write or look elsewhere.
STAGES = ("$match", "$project", "$addFields", "$set", "$unset", "$replaceRoot", "$replaceWith", "$redact")
Operation = Literal["insert", "update", "replace", "delete"]


class LoopGuard(Spec):
    """More runs of one document than `max` in `per` are a workflow that writes what starts it: the event is skipped."""

    max: int = Field(default=20, ge=1, le=100_000)
    per: Duration = Field(default=timedelta(seconds=60), json_schema_extra={"default": "60s"})


class ChangeSpec(BaseTrigger):
    type: Literal["database_condition"] = "database_condition"
    database: str = Field(min_length=1)
    collection: str | None = Field(default=None, min_length=1, description="Without it: the whole database")
    operations: tuple[Operation, ...] = Field(default=("insert", "update", "replace"), min_length=1)
    when: Expression | None = None
    pipeline: tuple[dict[str, Any], ...] = Field(default=(), description="Stages on the server, after our own filter")
    full_document: Literal["update_lookup", "when_available", "required", "off"] = "update_lookup"
    pre_image: Literal["off", "when_available", "required"] = "off"
    ordering: Literal["per_document", "strict", "none"] = "per_document"
    debounce: Duration = Field(default=timedelta(0), json_schema_extra={"default": "0s"})
    on_history_lost: Literal["suspend", "resume_now"] = "suspend"
    loop_guard: LoopGuard = LoopGuard()

    @field_validator("pipeline")
    @classmethod
    def _known_stages(cls, stages: tuple[dict[str, Any], ...]) -> tuple[dict[str, Any], ...]:
        for stage in stages:
            if len(stage) != 1 or next(iter(stage)) not in STAGES:
                raise ValueError(f"write one of {', '.join(STAGES)} in each stage")
        return stages
