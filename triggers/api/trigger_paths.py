"""Trigger paths: the address of a trigger in the API, and its errors."""

from dataclasses import dataclass
from typing import Annotated, Any
from urllib.parse import quote, urlencode

from fastapi import Depends, Path, Query, Request, Response
from pydantic import Field

from triggers.api.api_problems import invalid_fields, workflow_not_found
from triggers.api.caller_access import Reader
from triggers.api.field_types import LINE, LINE_SCHEMA, Name
from triggers.control.trigger_entry import TriggerEntry
from triggers.control.trigger_errors import (
    EditedMeanwhileError,
    NotForThisKeyError,
    UnfitTriggerError,
    UnknownTriggerError,
    UnknownWorkflowError,
)
from triggers.control.trigger_names import find_exact, find_runtime_trigger, find_trigger
from triggers.gateway.http_problems import ProblemError, problem_response
from triggers.role_context import RoleContext

WorkflowName = Annotated[Name, Path(description="The workflow that it starts.", examples=["DailyDigest"])]
# The part behind an @ is an app, whose percent-encoding may be twelve times as long.
TriggerName = Annotated[
    str,
    Field(min_length=1, max_length=2_600, json_schema_extra=LINE_SCHEMA),
    LINE,
    Path(description="Its name; or `name@app`, as in its `trigger_id`.", examples=["nightly"]),
]
AppQuery = Annotated[
    Name | None, Query(description="The app. A key of one app implies it; without it: the whole trigger.")
]


@dataclass(frozen=True, slots=True)
class TriggerPath:
    """The trigger in an address: workflow and name, or `name@app`."""

    workflow: str
    name: str
    app_id: str | None  # the requested app, or the only one that the caller sees

    async def find_entry(self, context: RoleContext) -> TriggerEntry:
        if self._has_full_id:
            return await find_trigger(context, f"{self.workflow}/{self.name}", app_id=self.app_id)
        return await find_exact(context, self.workflow, self.name, app_id=self.app_id)

    async def find_runtime_entry(self, context: RoleContext) -> TriggerEntry:
        """Finds a trigger to edit or remove."""
        if self._has_full_id:
            return await self.find_entry(context)
        return await find_runtime_trigger(context, self.workflow, self.name, app_id=self.app_id)

    @property
    def _has_full_id(self) -> bool:
        return bool(self.name.partition("@")[2])


async def _trigger_path(
    caller: Reader, workflow: WorkflowName, name: TriggerName, app_id: AppQuery = None
) -> TriggerPath:
    return TriggerPath(workflow, name, caller.resolve_optional_app(app_id))


TriggerPathParam = Annotated[TriggerPath, Depends(_trigger_path)]


def trigger_url(entry: TriggerEntry) -> str:
    path = f"/v1/triggers/{quote(entry.workflow, safe='')}/{quote(entry.name, safe='')}"
    return path if entry.app_id is None else f"{path}?{urlencode({'app_id': entry.app_id})}"


async def _on_unknown_trigger(_request: Request, _error: Exception) -> Response:
    """Uses the same 404 for another app's trigger and for none."""
    return problem_response(ProblemError(404, "there is no such trigger"))


async def _on_unknown_workflow(_request: Request, error: Exception) -> Response:
    return problem_response(workflow_not_found(str(error)))


async def _on_unfit_trigger(_request: Request, error: Exception) -> Response:
    assert isinstance(error, UnfitTriggerError)  # noqa: S101 -- FastAPI types each handler as one of Exception
    return problem_response(invalid_fields({place or "spec": problem for place, problem in error.problems.items()}))


async def _on_not_for_this_key(_request: Request, error: Exception) -> Response:
    return problem_response(ProblemError(403, str(error)))


async def _on_edited_meanwhile(_request: Request, error: Exception) -> Response:
    return problem_response(ProblemError(412, str(error)))


TRIGGER_HANDLERS: dict[Any, Any] = {
    UnknownTriggerError: _on_unknown_trigger,
    UnknownWorkflowError: _on_unknown_workflow,
    UnfitTriggerError: _on_unfit_trigger,
    NotForThisKeyError: _on_not_for_this_key,
    EditedMeanwhileError: _on_edited_meanwhile,
}
