"""Models of budgets: what an operator sets, and how it stands."""

from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from accounting.budgets.budget import MAX_NOTE, MAX_TOKENS, NewRuns, Running, Unit, Window
from triggers.api.field_types import Moment, Name, with_error
from triggers.api.run_models import RequestModel, ResponseModel

EACH_APP = "`*` is each app on its own"


class BudgetRequest(RequestModel):
    """Its app, workflow, window and unit say which budget it is."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"app_id": "acme", "window": "day", "unit": "usd", "limit": 10, "timezone": "Europe/Berlin"},
                {"app_id": "*", "window": "month", "unit": "tokens", "limit": 50000000, "new_runs": "refuse"},
            ]
        }
    )

    app_id: Name | None = Field(None, description=f"Whose: one app; {EACH_APP}, null is all apps of the workflow.")
    workflow: Name | None = Field(None, description="Only of this workflow. Needed where `app_id` is null.")
    window: Window = Field(description="`total` has no end; of `run` each run may spend that much.")
    unit: Unit
    limit: Annotated[float, Field(ge=0, le=MAX_TOKENS), with_error("must be a number from 0 on, of tokens or USD")] = (
        Field(description="Tokens, input and output, or USD.")
    )
    timezone: Annotated[str, Field(max_length=100)] = Field("UTC", description="Whose hours, days and months.")
    soft: bool = Field(False, description="It warns, and stops nothing.")
    new_runs: NewRuns = Field("hold", description="When it is spent: new runs wait for the next window, or fail.")
    running: Running = Field("stop", description="When it is spent: running ones end, or wait where they stand.")
    pause_triggers: bool = Field(False, description="When it is spent: triggers pause until the window turns.")
    note: Annotated[str, Field(max_length=MAX_NOTE)] = Field("", description="Why, for all who see the budget.")


class WindowStatus(ResponseModel):
    """Of a window. `share` 1.0 is all of it. Amounts are tokens or USD; of a budget that several apps share they are
    null for a key of one app."""

    for_app_id: str | None = Field(description="Whose window it is; null where all apps share it.")
    window_start: Moment | None
    window_end: Moment | None = Field(description="Null where there is no end.")
    spent: float | None
    reserved: float | None = Field(description="For calls that are being made.")
    left: float | None = Field(description="Below 0 where calls took more than was expected of them.")
    share: float | None
    exhausted: bool
    exhausted_since: Moment | None = Field(description="When a worker found it spent, or it was changed last.")
    rejections: int | None = Field(description="Runs and calls that were held or refused in this window.")
    rejections_total: int | None


class BudgetTerms(ResponseModel):
    budget_id: str
    app_id: str | None = Field(description=EACH_APP)
    workflow: str | None
    window: Literal["hour", "day", "month", "total", "run"]
    unit: Literal["tokens", "usd"]
    limit: float
    timezone: str
    soft: bool
    new_runs: str
    running: str
    pause_triggers: bool
    note: str


class BudgetWithStatus(BudgetTerms, WindowStatus): ...


class BudgetPage(ResponseModel):
    items: list[BudgetWithStatus]
    next: str | None = Field(description="`cursor` for the next page; null on the last one.")


class BudgetDetails(BudgetTerms):
    created_at: Moment
    updated_at: Moment
    updated_by: str
    standings: list[WindowStatus] = Field(description="The fullest first, at most a thousand.")
