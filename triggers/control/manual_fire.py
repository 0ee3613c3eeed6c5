"""Manual fire: starts a trigger as if its event had come."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

from accounting.infra.aio import gather_all
from triggers.control.trigger_entry import TriggerEntry, check_answers_approved, check_workflow_started
from triggers.control.trigger_errors import UnfitTriggerError, UnknownTriggerError
from triggers.control.trigger_pauses import normalize_app, require_readable
from triggers.event_expressions import EvaluatorBusyError, ExpressionError, ExpressionEvaluator, resolve_text
from triggers.kind_registry import KINDS
from triggers.occurrence import Occurrence, build_run_request, select_app
from triggers.register.trigger import Trigger, deferred_apps_source
from triggers.role_context import RoleContext
from triggers.schedule.schedule_apps import AppsUnreadableError, iter_app_batches, iter_batches
from workers.control.change_result import RefusedError
from workers.store.run import Accepted, RunRequest
from workers.store.storable import NotStorableError, check_storable
from workflows.package.trigger_specs.base_spec import is_expression
from workflows.package.trigger_specs.form_spec import FormSpec

log = logging.getLogger(__name__)

MAX_RUNS = 10_000
MAX_CONCURRENT = 200
APP_OF_ENDED_RUN = "=app_id"  # a field of `runs show --json`


@dataclass(frozen=True, slots=True)
class ManualRun:
    app_id: str
    run_id: str

    def as_json(self) -> dict[str, str]:
        return asdict(self)


async def fire(
    context: RoleContext,
    entry: TriggerEntry,
    *,
    by: str,
    app_id: str | None = None,
    event: Mapping[str, Any] | None = None,
    viewer: str | None = None,
    may_approve: bool = True,
) -> Sequence[ManualRun]:
    """Starts the runs of all apps, or none when one cannot be mapped. Ignores pauses."""
    trigger = require_readable(entry)
    check_answers_approved(entry, may_approve=may_approve)
    check_workflow_started(context.catalog, entry.workflow, viewer=viewer)
    now, event = datetime.now(UTC), event or {}
    apps = await _resolve_apps(context, entry, normalize_app(entry, app_id), event, now)
    requests = [await _build_request(trigger, app, event, now) for app in apps]
    accepted: list[Accepted] = []
    for batch in iter_batches(requests, MAX_CONCURRENT):
        accepted += await gather_all(context.acceptance.accept(request) for request in batch)
    for _ in accepted:  # empty without apps
        context.stats.count_accepted(trigger, at=now)
    log.info("trigger_fired_by_hand", extra={"trigger": entry.id, "runs": len(accepted), "by": by})
    return [ManualRun(app, result.run_id) for app, result in zip(apps, accepted, strict=True)]


async def _resolve_apps(
    context: RoleContext, entry: TriggerEntry, app_id: str | None, event: Mapping[str, Any], now: datetime
) -> Sequence[str]:
    trigger = require_readable(entry)
    source = None if entry.app_id is not None else deferred_apps_source(trigger.spec)
    if source == "collection":
        return await _apps_of_collection(context, trigger, app_id)
    if entry.apps:
        return entry.apps if app_id is None else (app_id,)
    if source is None:
        raise RefusedError(f"{entry.id} names no apps, so that nothing can be started; add apps to it")
    return (await _app_of_event(trigger, app_id, event, now),)


async def _app_of_event(trigger: Trigger, app_id: str | None, event: Mapping[str, Any], now: datetime) -> str:
    """Returns the app that the event names. `app_id` is for an event that names none."""
    template = trigger.spec.app_id if is_expression(trigger.spec.app_id) else APP_OF_ENDED_RUN
    data = _build_occurrence(trigger, app_id or "", event, now).data
    evaluator = ExpressionEvaluator(data)
    try:
        named = await evaluator.evaluate(lambda budget: resolve_text(template, data, budget))
        if named:
            named = await evaluator.evaluate(lambda budget: select_app(template, data, budget))
    except ExpressionError as error:
        raise UnfitTriggerError({"event": str(error)}) from None
    except EvaluatorBusyError as error:
        raise RefusedError(str(error)) from None
    if not (named or app_id):
        raise UnfitTriggerError({"app_id": f"is needed, as {template} selects no app from the event"})
    if named and app_id not in (None, named):
        raise UnfitTriggerError({"app_id": f"is {app_id}, but the event names {named}; leave it out, or correct one"})
    return str(named or app_id)


async def _apps_of_collection(context: RoleContext, trigger: Trigger, app_id: str | None) -> Sequence[str]:
    found: list[str] = []
    try:
        async for batch in iter_app_batches(trigger, context.database):
            if app_id in batch.apps:
                return (str(app_id),)
            found += batch.apps if app_id is None else ()
            if len(found) > MAX_RUNS:
                raise RefusedError(f"{trigger.id} is for more than {MAX_RUNS} apps; fire it for one of them")
    except AppsUnreadableError as error:
        raise RefusedError(f"the apps of {trigger.id} cannot be read: {error}") from None
    if app_id is not None:
        raise UnknownTriggerError(f"{trigger.id} of {app_id}")
    return found


async def _build_request(trigger: Trigger, app_id: str, event: Mapping[str, Any], now: datetime) -> RunRequest:
    occurrence = _build_occurrence(trigger, app_id, event, now)
    try:
        request = await ExpressionEvaluator(occurrence.data).evaluate(
            lambda budget: build_run_request(occurrence, run_input=_form_input(occurrence), budget=budget)
        )
        check_storable(request.input)
    except (ExpressionError, NotStorableError) as error:
        raise UnfitTriggerError({"event": str(error)}) from None
    except EvaluatorBusyError as error:
        raise RefusedError(str(error)) from None
    return request


def _build_occurrence(trigger: Trigger, app_id: str, event: Mapping[str, Any], now: datetime) -> Occurrence:
    try:
        check_storable(event, path="event", any_key=True)
        return KINDS[trigger.spec.type].manual_event(trigger, app_id, event, now)
    except (ExpressionError, NotStorableError) as error:
        raise UnfitTriggerError({"event": str(error)}) from None


def _form_input(occurrence: Occurrence) -> Mapping[str, Any] | None:
    """Returns the fields of a form without a mapping, which are its run's input."""
    spec = occurrence.trigger.spec
    return occurrence.data if isinstance(spec, FormSpec) and not spec.input else None
