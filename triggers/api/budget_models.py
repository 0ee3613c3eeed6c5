"""Budget models: the limits that an operator sets, and their status."""

from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from accounting.budgets.budget import MAX_NOTE, MAX_TOKENS, NewRuns, Running, Unit, Window
from triggers.api.field_types import Moment, Name, with_error
from triggers.api.run_models import RequestModel, ResponseModel

EACH_APP = "`*` is each app on its own"


class BudgetRequest(RequestModel):
    """A budget, identified by its app, workflow, window and unit."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"app_id": "acme", "window": "day", "unit": "usd", "limit": 10, "timezone": "Europe/Berlin"},
                {"app_id": "*", "window": "month", "unit": "tokens", "limit": 50000000, "new_runs": "refuse"},
            ]
        }
    )

    app_id: Name | None = Field(None, description=f"One app; {EACH_APP}; null is all apps of the workflow.")
    workflow: Name | None = Field(None, description="Only this workflow. Required where `app_id` is null.")
    window: Window = Field(description="`total` has no end; `run` is a limit for each run.")
    unit: Unit
    limit: Annotated[float, Field(ge=0, le=MAX_TOKENS), with_error("must be a number from 0 on, of tokens or USD")] = (
        Field(description="Tokens, input and output, or USD.")
    )
    timezone: Annotated[str, Field(max_length=100)] = Field(
        "UTC", description="The time zone of hours, days and months."
    )
    soft: bool = Field(False, description="Logs and alerts, and stops nothing.")
    new_runs: NewRuns = Field("hold", description="When it is exhausted: new runs wait for the next window, or fail.")
    running: Running = Field("stop", description="When it is exhausted: running ones end, or pause where they are.")
    pause_triggers: bool = Field(False, description="When it is exhausted: triggers pause until the next window.")
    note: Annotated[str, Field(max_length=MAX_NOTE)] = Field("", description="A note, shown with the budget.")


class WindowStatus(ResponseModel):
    """The status of a window. `share` 1.0 is exhausted; amounts are tokens or USD.

    For a key of one app, the amounts of a budget that several apps share are null.
    """

    for_app_id: str | None = Field(description="The app of the window; null where all apps share it.")
    window_start: Moment | None
    window_end: Moment | None = Field(description="Null for a window without end.")
    spent: float | None
    reserved: float | None = Field(description="For calls in progress.")
    left: float | None = Field(description="Negative when calls used more than was reserved.")
    share: float | None
    exhausted: bool
    exhausted_since: Moment | None = Field(description="When a worker found it exhausted, or it was last changed.")
    rejections: int | None = Field(description="Runs and calls held or refused in this window.")
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
