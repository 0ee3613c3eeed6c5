"""Firing a trigger by hand: as if what it waits for had happened, for one of its apps or for all of them."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

from triggers.computation import Computation
from triggers.control.errors import UnfitTriggerError, UnknownTriggerError
from triggers.control.known import Known, check_answers_approved, check_started
from triggers.control.pausing import one_of_its_apps, readable
from triggers.happening import Happening, run_request, selected_app
from triggers.kinds import KINDS
from triggers.payload import PayloadError, resolve_text
from triggers.register.precedence import apps_come_from
from triggers.register.trigger import Trigger
from triggers.role import TriggerGround
from triggers.schedule.apps import AppsUnreadableError, apps_of, in_portions
from workers.control.errors import RefusedError
from workers.store.run import Accepted, RunRequest
from workers.store.storable import NotStorableError, check_storable
from workers.together import together
from workflows.package.trigger_specs.form import FormSpec
from workflows.package.trigger_specs.trigger import is_expression

log = logging.getLogger(__name__)

MOST_RUNS = 10_000
AT_ONCE = 200
_BUSY = "too many large events are computed at once; try again"
APP_OF_ENDED_RUN = "=app_id"  # as `runs show --json` has it


@dataclass(frozen=True, slots=True)
class Fired:
    app_id: str
    run_id: str

    def as_json(self) -> dict[str, str]:
        return asdict(self)


async def fire(
    ground: TriggerGround,
    known: Known,
    *,
    by: str,
    app_id: str | None = None,
    event: Mapping[str, Any] | None = None,
    viewer: str | None = None,
    may_approve: bool = True,
) -> Sequence[Fired]:
    """Also of one that is paused: whoever fires it by hand means it. All its runs, or none when one cannot be."""
    trigger = readable(known)
    check_answers_approved(known, may_approve=may_approve)
    check_started(ground.catalog, known.workflow, viewer=viewer)
    now, event = datetime.now(UTC), event or {}
    apps = await _apps(ground, known, one_of_its_apps(known, app_id), event, now)
    requests = [await _request(trigger, app, event, now) for app in apps]
    accepted: list[Accepted] = []
    for some in in_portions(requests, AT_ONCE):
        accepted += await together(ground.acceptance.accept(request) for request in some)
    for _ in accepted:  # none, where no app is there to run it for
        ground.tally.accepted(trigger, at=now)
    log.info("trigger_fired_by_hand", extra={"trigger": known.id, "runs": len(accepted), "by": by})
    return [Fired(app, each.run_id) for app, each in zip(apps, accepted, strict=True)]


async def _apps(
    ground: TriggerGround, known: Known, app_id: str | None, event: Mapping[str, Any], now: datetime
) -> Sequence[str]:
    trigger = readable(known)
    source = None if known.app_id is not None else apps_come_from(trigger.spec)
    if source == "collection":
        return await _of_collection(ground, trigger, app_id)
    if known.apps:
        return known.apps if app_id is None else (app_id,)
    if source is None:
        raise RefusedError(f"{known.id} names no apps, so that nothing can be started; add apps to it")
    return (await _of_event(trigger, app_id, event, now),)


async def _of_event(trigger: Trigger, app_id: str | None, event: Mapping[str, Any], now: datetime) -> str:
    """`app_id` is for an event that names none, as one may that was made up."""
    mapped = trigger.spec.app_id if is_expression(trigger.spec.app_id) else APP_OF_ENDED_RUN
    data = _happening(trigger, app_id or "", event, now).data
    computation = Computation(data)
    try:
        named = await computation.run(lambda effort: resolve_text(mapped, data, effort))
        if named:
            named = await computation.run(lambda effort: selected_app(mapped, data, effort))
    except PayloadError as error:
        raise UnfitTriggerError({"event": str(error)}) from None
    except TimeoutError:
        raise RefusedError(_BUSY) from None
    if not (named or app_id):
        raise UnfitTriggerError({"app_id": f"is needed, as {mapped} selects no app from the event"})
    if named and app_id not in (None, named):
        raise UnfitTriggerError({"app_id": f"is {app_id}, but the event names {named}; leave it out, or correct one"})
    return str(named or app_id)


async def _of_collection(ground: TriggerGround, trigger: Trigger, app_id: str | None) -> Sequence[str]:
    found: list[str] = []
    try:
        async for portion in apps_of(trigger, ground.database):
            if app_id in portion.apps:
                return (str(app_id),)
            found += portion.apps if app_id is None else ()
            if len(found) > MOST_RUNS:
                raise RefusedError(f"{trigger.id} is for more than {MOST_RUNS} apps; fire it for one of them")
    except AppsUnreadableError as error:
        raise RefusedError(f"the apps of {trigger.id} cannot be read: {error}") from None
    if app_id is not None:
        raise UnknownTriggerError(f"{trigger.id} of {app_id}")
    return found


async def _request(trigger: Trigger, app_id: str, event: Mapping[str, Any], now: datetime) -> RunRequest:
    happening = _happening(trigger, app_id, event, now)
    try:
        request = await Computation(happening.data).run(
            lambda effort: run_request(happening, run_input=_form_input(happening), effort=effort)
        )
        check_storable(request.input)
    except (PayloadError, NotStorableError) as error:
        raise UnfitTriggerError({"event": str(error)}) from None
    except TimeoutError:
        raise RefusedError(_BUSY) from None
    return request


def _happening(trigger: Trigger, app_id: str, event: Mapping[str, Any], now: datetime) -> Happening:
    try:
        check_storable(event, path="event", any_key=True)
        return KINDS[trigger.spec.type].by_hand(trigger, app_id, event, now)
    except (PayloadError, NotStorableError) as error:
        raise UnfitTriggerError({"event": str(error)}) from None


def _form_input(happening: Happening) -> Mapping[str, Any] | None:
    """The answers of a form without a mapping are its run's input."""
    spec = happening.trigger.spec
    return happening.data if isinstance(spec, FormSpec) and not spec.input else None
