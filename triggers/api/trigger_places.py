"""Where a trigger stands in the API: its address, and how its problems are told."""

from typing import Annotated, Any
from urllib.parse import quote, urlencode

from fastapi import Path, Query, Request, Response

from triggers.api.field_types import Name
from triggers.api.problems import invalid_fields, no_such_workflow
from triggers.control.errors import (
    EditedMeanwhileError,
    NotForThisKeyError,
    UnfitTriggerError,
    UnknownTriggerError,
    UnknownWorkflowError,
)
from triggers.control.known import Known
from triggers.gateway.problems import ProblemError, problem_response

WorkflowName = Annotated[Name, Path(description="What it starts.", examples=["DailyDigest"])]
TriggerName = Annotated[Name, Path(description="Its name in that workflow.", examples=["nightly"])]
OfApp = Annotated[
    Name | None, Query(description="Of which app. A key of one app means that one; without it: the whole trigger.")
]


def address_of(known: Known) -> str:
    path = f"/v1/triggers/{quote(known.workflow, safe='')}/{quote(known.name, safe='')}"
    return path if known.app_id is None else f"{path}?{urlencode({'app_id': known.app_id})}"


async def _on_unknown(_request: Request, _error: Exception) -> Response:
    """Another app's trigger is as unknown as one that never was."""
    return problem_response(ProblemError(404, "there is no such trigger"))


async def _on_unknown_workflow(_request: Request, error: Exception) -> Response:
    return problem_response(no_such_workflow(str(error)))


async def _on_unfit(_request: Request, error: Exception) -> Response:
    assert isinstance(error, UnfitTriggerError)  # noqa: S101 -- FastAPI types every handler as one of Exception
    return problem_response(invalid_fields({place or "spec": said for place, said in error.problems.items()}))


async def _on_not_for_this_key(_request: Request, error: Exception) -> Response:
    return problem_response(ProblemError(403, str(error)))


async def _on_edited_meanwhile(_request: Request, error: Exception) -> Response:
    return problem_response(ProblemError(412, str(error)))


TRIGGER_HANDLERS: dict[Any, Any] = {
    UnknownTriggerError: _on_unknown,
    UnknownWorkflowError: _on_unknown_workflow,
    UnfitTriggerError: _on_unfit,
    NotForThisKeyError: _on_not_for_this_key,
    EditedMeanwhileError: _on_edited_meanwhile,
}
