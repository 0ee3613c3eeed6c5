"""Trigger intake: turns the event of a webhook or form call into a durable run."""

import asyncio
import hashlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from ulid import ULID

from triggers.acceptance import Acceptance
from triggers.event_expressions import EvaluationLimits, EvaluatorBusyError, ExpressionError, ExpressionEvaluator
from triggers.gateway.gateway_metrics import GatewayMetrics
from triggers.gateway.http_problems import PausedError, ProblemError, store_timeout_problem, unavailable_problem
from triggers.gateway.trigger_address import TriggerAddress
from triggers.gateway.trigger_lookup import STORE_TIMEOUT_S, SpecT, TriggerLookup, TriggerTarget
from triggers.occurrence import Occurrence, build_run_request
from triggers.register.trigger import Trigger
from triggers.register.trigger_stats import TriggerStats
from workers.settings import Settings
from workers.store.run import Accepted
from workers.store.storable import NotStorableError

MAX_EVENT_ID_LENGTH = 200
EXPRESSIONS_FAILED = "the trigger's expressions cannot be computed from this body"


@dataclass(frozen=True, slots=True)
class TriggerIntake:
    """The services that webhook and form endpoints share."""

    settings: Settings
    lookup: TriggerLookup
    acceptance: Acceptance
    metrics: GatewayMetrics
    stats: TriggerStats
    store_timeout_s: float = STORE_TIMEOUT_S
    evaluation: EvaluationLimits = field(default_factory=EvaluationLimits)

    async def accept(
        self,
        target: TriggerTarget[SpecT],
        address: TriggerAddress,
        event: Any,
        *,
        event_id: str,
        run_input: Mapping[str, Any] | None = None,
        evaluator: ExpressionEvaluator | None = None,
    ) -> Accepted:
        """Returns when the run is durable.

        Raises 400 for an event that cannot be mapped or stored.
        """
        trigger = target.trigger
        occurrence = Occurrence(trigger, address.app, event_id, datetime.now(UTC), event)
        try:
            with self.refusing_expressions(trigger, address, "not_mapped"):
                request = await (evaluator or self.evaluator(event)).evaluate(
                    lambda budget: build_run_request(occurrence, run_input=run_input, budget=budget)
                )
            # A frozen store would hold a call for longer than senders wait. After 503 the sender retries, and a run
            # that became durable after all is then found by its event id.
            async with asyncio.timeout(self.store_timeout_s):
                accepted = await self.acceptance.accept(request)
        except TimeoutError:
            raise store_timeout_problem("accept") from None
        except NotStorableError as error:
            raise self.body_refusal(trigger, address, "not_storable", str(error)) from None
        if accepted.created:
            self.stats.count_accepted(trigger, at=occurrence.time)
        else:
            self.metrics.count_duplicate(trigger)
            self.stats.record_duplicate(trigger, app_id=address.app, event_id=event_id)
        return accepted

    def evaluator(self, event: Any) -> ExpressionEvaluator:
        return ExpressionEvaluator(event, self.evaluation)

    def check_not_paused(self, target: TriggerTarget[SpecT], address: TriggerAddress) -> None:
        if target.pause is not None:
            self.stats.record_refusal(target.trigger, "paused", app_id=address.app)
            raise PausedError

    @contextmanager
    def refusing_expressions(
        self, trigger: Trigger, address: TriggerAddress, reason: str, detail: str = EXPRESSIONS_FAILED
    ) -> Iterator[None]:
        """Answers 400 when expressions do not fit the event, 503 when busy."""
        try:
            yield
        except ExpressionError:
            raise self.body_refusal(trigger, address, reason, detail) from None
        except EvaluatorBusyError as error:
            raise unavailable_problem(str(error)) from None

    def body_refusal(self, trigger: Trigger, address: TriggerAddress, reason: str, detail: str) -> ProblemError:
        """Records a refusal and returns its 400.

        `reason` is from a closed set; only the sender reads `detail`.
        """
        self.stats.record_refusal(trigger, reason, app_id=address.app)
        return ProblemError(400, detail)


def normalize_event_id(text: str | None) -> str:
    """Returns the event's part of the dedupe key.

    An event without an id gets a new one.
    """
    if not text:
        return str(ULID())
    if len(text) <= MAX_EVENT_ID_LENGTH and text.isascii() and text.isprintable():
        return text
    return f"sha256:{hashlib.sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()}"
