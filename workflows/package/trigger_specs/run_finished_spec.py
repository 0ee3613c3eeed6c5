"""The spec of run_finished triggers: workflow and outcomes of ended runs."""

from typing import Any, Literal

from pydantic import Field, field_validator, model_validator

from workflows.outcome import OutcomeKind
from workflows.package.trigger_specs.base_spec import BaseTrigger, is_expression
from workflows.package.trigger_specs.spec_field_types import Expression, Name, SpecFieldError

STATES = ("succeeded", "failed", "cancelled", "parked")
ANY_OUTCOME = "any"
_NON_FINAL_OUTCOME = "needs_human"  # such a run continues after an answer
OUTCOMES = tuple(
    dict.fromkeys((*STATES, *(kind.value for kind in OutcomeKind if kind.value != _NON_FINAL_OUTCOME), ANY_OUTCOME))
)


class RunFinishedSpec(BaseTrigger):
    """Starts a run for the app of the ended run; `apps` limits it to these apps."""

    type: Literal["run_finished"] = "run_finished"
    workflow: Name
    outcome: tuple[str, ...] = Field(default=("succeeded",), min_length=1, description="States or kinds of outcome")
    when: Expression | None = None

    @field_validator("outcome", mode="before")
    @classmethod
    def _wrap_single_outcome(cls, value: Any) -> Any:
        return (value,) if isinstance(value, str) else value

    @field_validator("outcome")
    @classmethod
    def _check_outcomes(cls, outcomes: tuple[str, ...]) -> tuple[str, ...]:
        unknown = [outcome for outcome in outcomes if outcome not in OUTCOMES]
        if unknown:
            raise ValueError(f"{unknown[0]} is not one of {', '.join(OUTCOMES)}")
        return outcomes

    @model_validator(mode="after")
    def _check_app_id(self) -> "RunFinishedSpec":
        if is_expression(self.app_id):
            raise SpecFieldError("app_id", "the run starts in the app of the ended run; remove app_id")
        return self
