"""The reception: what webhooks and forms share, from the trigger in the address to the durable run."""

import asyncio
import hashlib
import json
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypeVar

from pymongo.errors import PyMongoError
from starlette.requests import Request
from starlette.responses import Response
from ulid import ULID

from triggers.acceptance import Acceptance
from triggers.computation import Computation
from triggers.gateway.metrics import RESULT_BY_STATUS, Endpoint, GatewayMetrics, Result
from triggers.gateway.place import Place, not_found
from triggers.gateway.problems import ProblemError, unavailable
from triggers.happening import MAX_APP_ID_LENGTH, Happening, run_request
from triggers.payload import PayloadError
from triggers.register.lookup import Called, Found, Lookup
from triggers.register.tally import Tally
from triggers.register.trigger import Trigger
from workers.settings import Settings
from workers.store.run import Accepted
from workers.store.storable import NotStorableError
from workflows.context.bounded_expression import Effort

log = logging.getLogger(__name__)

MAX_ID_LENGTH = 200
PAUSED_RETRY_AFTER_S = 60
STORE_PATIENCE_S = 8.0  # GitHub hangs up after 10
Computed = TypeVar("Computed")
NOT_COMPUTED = "the trigger's expressions cannot be computed from this body"


class PausedError(ProblemError):
    """A sender that retries loses nothing: 503, and not an answer that drops the delivery."""

    def __init__(self) -> None:
        headers = {"retry-after": str(PAUSED_RETRY_AFTER_S)}
        super().__init__(503, "this trigger is paused; try again later", headers=headers)


@dataclass(frozen=True, slots=True)
class Reception:
    settings: Settings
    lookup: Lookup
    acceptance: Acceptance
    metrics: GatewayMetrics
    tally: Tally

    async def find(self, kind: type[Called], place: Place) -> Found[Called]:
        """Raises 404. Whether it is paused is for `check_open`, when the caller may know."""
        # An expression may name the app, and then the address may: what is no name goes into no log and no note.
        if len(place.app) > MAX_APP_ID_LENGTH or not place.app.isprintable():
            raise not_found()
        try:
            found = await self.lookup.find(kind, app_id=place.app, workflow=place.workflow, name=place.trigger)
        except TimeoutError:
            raise _no_answer("find") from None
        if found is None:
            raise not_found()
        return found

    def last_known(self, kind: type[Called], place: Place) -> Called | None:
        """While the store does not answer."""
        return self.lookup.last_known(kind, app_id=place.app, workflow=place.workflow, name=place.trigger)

    def check_open(self, found: Found[Called], place: Place) -> None:
        if found.pause is not None:
            self.tally.refused(found.trigger, "paused", app_id=place.app)
            raise PausedError

    async def accept(
        self,
        found: Found[Called],
        place: Place,
        event: Any,
        *,
        trigger_id: str,
        run_input: Mapping[str, Any] | None = None,
        computation: Computation | None = None,
    ) -> Accepted:
        """Durable when it returns. An event that cannot be mapped or kept is the sender's to change: 400."""
        trigger = found.trigger
        happening = Happening(trigger, place.app, trigger_id, datetime.now(UTC), event)
        try:
            request = await self.compute(
                computation or Computation(event),
                lambda effort: run_request(happening, run_input=run_input, effort=effort),
            )
            # A store that is frozen keeps a call for longer than any sender waits. Whoever is told 503 sends again,
            # and what became durable after all is then found by its delivery id.
            async with asyncio.timeout(STORE_PATIENCE_S):
                accepted = await self.acceptance.accept(request)
        except TimeoutError:
            raise _no_answer("accept") from None
        except PayloadError:
            raise self.refused_body(trigger, place, "not_mapped", NOT_COMPUTED) from None
        except NotStorableError as error:
            raise self.refused_body(trigger, place, "not_storable", str(error)) from None
        if accepted.created:
            self.tally.accepted(trigger, at=happening.time)
        else:
            self.metrics.duplicate_dropped(trigger)
            self.tally.duplicate(trigger, app_id=place.app, event_id=trigger_id)
        return accepted

    async def compute(self, computation: Computation, work: Callable[[Effort], Computed]) -> Computed:
        """Raises 503 if so many large events are computed that this one had no turn."""
        try:
            return await computation.run(work)
        except TimeoutError:
            raise unavailable("too many large events at once; try again") from None

    def refused_body(self, trigger: Trigger, place: Place, reason: str, detail: str) -> ProblemError:
        """To be raised. `reason` is from a closed set; `detail` goes to the sender alone."""
        self.tally.refused(trigger, reason, app_id=place.app)
        return ProblemError(400, detail)


def _no_answer(step: str) -> ProblemError:
    log.error("store_unavailable", extra={"error": "TimeoutError", "step": step})
    return unavailable()


@dataclass(frozen=True, slots=True)
class Answer:
    result: Result
    response: Response


def accepted_answer(accepted: Accepted) -> Answer:
    body = {"run_id": accepted.run_id, "status_url": f"/v1/runs/{accepted.run_id}"}
    if accepted.created:
        return Answer("accepted", json_response(body, 202))
    return Answer("duplicate", json_response(body, 200))


def json_response(body: Mapping[str, Any], status: int = 200) -> Response:
    """Starlette's own makes an encoder for each answer, which takes longer than encoding."""
    return Response(json.dumps(body), status, media_type="application/json")


def trigger_id_of(text: str | None) -> str:
    """What names this happening in the dedupe key; without a name it is unlike any other."""
    if not text:
        return str(ULID())
    if len(text) <= MAX_ID_LENGTH and text.isascii() and text.isprintable():
        return text
    return f"sha256:{hashlib.sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()}"


def result_of(problem: ProblemError) -> Result:
    return "paused" if isinstance(problem, PausedError) else RESULT_BY_STATUS.get(problem.status, "error")


def counted(
    endpoint: Endpoint, metrics: GatewayMetrics, handle: Callable[[Request], Awaitable[Answer]]
) -> Callable[[Request], Awaitable[Response]]:
    async def measured(request: Request) -> Response:
        started = time.perf_counter()
        result: Result = "error"
        try:
            answer = await handle(request)
            result = answer.result
            return answer.response
        except ProblemError as problem:
            result = result_of(problem)
            raise
        except PyMongoError:
            result = "unavailable"
            raise
        finally:
            metrics.answered(endpoint, result, seconds=time.perf_counter() - started)

    return measured
