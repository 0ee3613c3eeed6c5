"""The spec of change triggers: the changes in MongoDB that start runs."""

import re
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Literal

from pydantic import Field, field_validator

from workflows.context.documents.query_templates import SERVER_CODE
from workflows.package.trigger_specs.base_spec import BaseTrigger
from workflows.package.trigger_specs.spec_field_types import Duration, Expression, Spec

# The stages that MongoDB allows after a change stream, without $redact, which could remove protected fields.
ALLOWED_STAGES = ("$match", "$project", "$addFields", "$set", "$unset", "$replaceRoot", "$replaceWith")
MAX_STAGES = 20
MAX_STAGE_DEPTH = 50
# The watcher needs these fields for the resume position and the dedupe key, so no pipeline may change them.
PROTECTED_FIELDS = ("_id", "operationType", "clusterTime", "wallTime", "ns", "documentKey")
MAX_DATABASE_BYTES = 63
_FORBIDDEN_CHARACTERS = re.compile(r'[/\\. "$\x00]')
Operation = Literal["insert", "update", "replace", "delete"]


class LoopGuard(Spec):
    """A guard against a workflow that triggers itself.

    Skips events after `max` runs of one document in `per`.
    """

    max: int = Field(default=20, ge=1, le=100_000)
    per: Duration = Field(default=timedelta(seconds=60), json_schema_extra={"default": "60s"})


class ChangeSpec(BaseTrigger):
    type: Literal["database_condition"] = "database_condition"
    database: str = Field(min_length=1)
    collection: str | None = Field(default=None, min_length=1, description="Without it: the whole database")
    operations: tuple[Operation, ...] = Field(default=("insert", "update", "replace"), min_length=1)
    when: Expression | None = None
    pipeline: tuple[dict[str, Any], ...] = Field(
        default=(), max_length=MAX_STAGES, description="Stages on the server, after our own filter"
    )
    full_document: Literal["update_lookup", "when_available", "required", "off"] = "update_lookup"
    pre_image: Literal["off", "when_available", "required"] = "off"
    ordering: Literal["per_document", "strict", "none"] = "per_document"
    debounce: Duration = Field(default=timedelta(0), json_schema_extra={"default": "0s"})
    on_history_lost: Literal["suspend", "resume_now"] = "suspend"
    loop_guard: LoopGuard = LoopGuard()

    @field_validator("database")
    @classmethod
    def _check_database_name(cls, name: str) -> str:
        if _FORBIDDEN_CHARACTERS.search(name) or len(name.encode()) > MAX_DATABASE_BYTES:
            raise ValueError('is not a database name: use at most 63 bytes, without spaces and / \\ . " $')
        return name

    @field_validator("pipeline")
    @classmethod
    def _check_stages(cls, stages: tuple[dict[str, Any], ...]) -> tuple[dict[str, Any], ...]:
        for stage in stages:
            if len(stage) != 1 or next(iter(stage)) not in ALLOWED_STAGES:
                raise ValueError(f"write one of {', '.join(ALLOWED_STAGES)} in each stage")
            _refuse_code(stage, depth=0)
            _refuse_field_loss(*next(iter(stage.items())))
        return stages


def _refuse_code(value: Any, *, depth: int) -> None:
    if depth > MAX_STAGE_DEPTH:
        raise ValueError(f"a stage is nested deeper than {MAX_STAGE_DEPTH} levels")
    if isinstance(value, Mapping):
        for name, inner in value.items():
            if name in SERVER_CODE or name.startswith("$_"):
                raise ValueError(f"{name} is not allowed: code in a trigger is never executed")
            _refuse_code(inner, depth=depth + 1)
    elif isinstance(value, list):
        for inner in value:
            _refuse_code(inner, depth=depth + 1)


def _refuse_field_loss(stage: str, body: Any) -> None:
    """Rejects stages that change a protected field.

    A projection of included fields keeps them by itself.
    """
    if stage == "$unset":
        touched = [body] if isinstance(body, str) else body if isinstance(body, list) else []
    elif stage in ("$addFields", "$set", "$project") and isinstance(body, Mapping):
        touched = [name for name, value in body.items() if stage != "$project" or not _is_included(value)]
    else:
        touched = []
    for name in touched:
        if isinstance(name, str) and name.partition(".")[0] in PROTECTED_FIELDS:
            raise ValueError(f"{stage} must not change {name}: the watcher resumes by {', '.join(PROTECTED_FIELDS)}")


def _is_included(value: Any) -> bool:
    return value is True or (isinstance(value, int | float) and value != 0)
