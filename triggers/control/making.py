"""Making triggers at run time: they are checked as a package's are, belong to one app, and start runs of it alone."""

import logging
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from pydantic import ValidationError

from triggers.api_keys import HOW_TO_APPROVE
from triggers.control.errors import EditedMeanwhileError, NotForThisKeyError, UnfitTriggerError, UnknownTriggerError
from triggers.control.known import Ground, Known, approval_of, check_started, made
from triggers.happening import MAX_APP_ID_LENGTH
from triggers.kinds import KINDS
from triggers.register.precedence import in_front_of
from triggers.register.store import TriggerExistsError
from triggers.register.trigger import Trigger
from workers.control.errors import RefusedError
from workers.store.storable import NotStorableError, check_storable
from workflows.package.trigger_specs.kinds import SPEC_BY_TYPE, TriggerSpec
from workflows.package.trigger_specs.problems import problems_of
from workflows.package.trigger_specs.schedule import AppsOfCollection
from workflows.package.trigger_specs.trigger import is_expression

log = logging.getLogger(__name__)

MOST_OF_AN_APP = 10_000  # of those that its own keys make
MAX_SPEC_BYTES = 64 * 1024  # a due schedule brings its spec along, and there may be a thousand in one tick


async def make(
    ground: Ground,
    workflow: str,
    app_id: str,
    given: Mapping[str, Any],
    *,
    by: str,
    viewer: str | None = None,
    may_approve: bool = True,
) -> Known:
    """`given` is a spec as in a package. `viewer`: the app whose key asks; None for whoever may act for all.
    `may_approve`: whether the trigger may answer for people in advance."""
    check_started(ground.catalog, workflow, viewer=viewer)
    trigger = Trigger(workflow, checked_spec(given, app_id=app_id), _usable_app(app_id))
    _check_allowed(trigger, viewer)
    _check_standing_answers(trigger, may_approve=may_approve)
    first = _at_first(trigger, None)
    _check_comes_yet(first)
    if in_front_of(ground.catalog.packages(), workflow, trigger.spec.name, app_id) is not None:
        raise RefusedError(f"the package {workflow} has a trigger {trigger.spec.name} for {app_id}; take another name")
    await _check_room(ground, viewer)
    try:
        await ground.triggers.create(trigger, more={**first, **approval_of(trigger, by)})
    except TriggerExistsError:
        raise RefusedError(f"there is a trigger {trigger.id} already; edit it, or take another name") from None
    log.info("trigger_made", extra={"trigger": trigger.id, "type": trigger.spec.type, "by": by})
    return await _as_kept(ground, trigger.id)


async def edit(
    ground: Ground,
    known: Known,
    given: Mapping[str, Any],
    *,
    by: str,
    revision: int | None = None,
    viewer: str | None = None,
    may_approve: bool = True,
) -> Known:
    """`revision`: the one that was read before; None overwrites whatever is there. Whatever is edited of a trigger
    that answers in advance, those answers are given to other runs than before: it needs the right to approve."""
    record = only_made_at_run_time(known).record
    app_id = str(known.app_id)
    found = 0 if record is None else record.revision
    if revision is not None and revision != found:
        raise EditedMeanwhileError(known.id, revision=found)
    check_started(ground.catalog, known.workflow, viewer=viewer)
    spec = checked_spec({"name": known.name, "type": known.type, **given}, app_id=app_id)
    _check_same(known, spec)
    trigger = Trigger(known.workflow, spec, app_id, found)
    _check_allowed(trigger, viewer)
    _check_standing_answers(trigger, may_approve=may_approve)
    more = {**_at_first(trigger, None if record is None else record.document), **approval_of(trigger, by)}
    if not await ground.triggers.replace(trigger, expected=found, more=more):
        raise await _gone_or_edited(ground, known.id)
    log.info("trigger_edited", extra={"trigger": known.id, "revision": found + 1, "by": by})
    return await _as_kept(ground, known.id)


async def remove(ground: Ground, known: Known, *, by: str, revision: int | None = None) -> None:
    """Its runs stay. `revision`: the one that was read before; None removes it whatever it is now."""
    only_made_at_run_time(known)
    if not await ground.triggers.remove(known.id, expected=revision):
        raise await _gone_or_edited(ground, known.id)
    log.info("trigger_removed", extra={"trigger": known.id, "by": by})


def checked_spec(given: Mapping[str, Any], *, app_id: str) -> TriggerSpec:
    """Raises UnfitTriggerError with every problem at once."""
    kind = given.get("type")
    model = SPEC_BY_TYPE.get(kind.strip().lower()) if isinstance(kind, str) else None
    if model is None:
        raise UnfitTriggerError({"type": f"must be one of {', '.join(sorted(KINDS))}"})
    said = {field: value for field, value in given.items() if value is not None}
    try:
        check_storable(said, path="spec", any_key=True)
        spec = model.model_validate({**said, "type": model.model_fields["type"].default})
        written = spec.model_dump_json(by_alias=True, exclude_unset=True)
    except ValidationError as error:
        raise UnfitTriggerError({each.place: each.message for each in problems_of(error)}) from None
    except NotStorableError as error:
        raise UnfitTriggerError({"": str(error)}) from None
    if len(written.encode()) > MAX_SPEC_BYTES:
        raise UnfitTriggerError({"": f"the trigger is larger than {MAX_SPEC_BYTES // 1024} KB; make it smaller"})
    _check_app(spec, app_id)
    return spec


def _check_app(spec: TriggerSpec, app_id: str) -> None:
    only = f"a trigger made at run time is of one app, here {app_id}; leave it out"
    if isinstance(spec.apps, AppsOfCollection) or set(spec.apps) - {app_id}:
        raise UnfitTriggerError({"apps": only})
    if is_expression(spec.app_id) or spec.literal_app not in (None, app_id):
        raise UnfitTriggerError({"app_id": only})


def _usable_app(app_id: str) -> str:
    if not app_id or len(app_id) > MAX_APP_ID_LENGTH or not app_id.isprintable():
        raise UnfitTriggerError({"app_id": f"must be printable text of at most {MAX_APP_ID_LENGTH} characters"})
    return app_id


def _check_allowed(trigger: Trigger, viewer: str | None) -> None:
    why_not = None if viewer is None else KINDS[trigger.spec.type].only_for_all_apps(trigger.spec)
    if why_not is not None:
        raise NotForThisKeyError(why_not)


def _check_standing_answers(trigger: Trigger, *, may_approve: bool) -> None:
    if trigger.spec.ui_responses and not may_approve:
        raise NotForThisKeyError(f"ui_responses answer for people, and this key may not approve; {HOW_TO_APPROVE}")


def _check_same(known: Known, spec: TriggerSpec) -> None:
    same = {"name": (known.name, spec.name), "type": (known.type, spec.type)}
    problems = {
        field: f"is {before}, and stays so; make another trigger instead"
        for field, (before, after) in same.items()
        if before != after
    }
    if problems:
        raise UnfitTriggerError(problems)


def _check_comes_yet(first: Mapping[str, Any]) -> None:
    """An edit may end a schedule; one that has ended before it begins is a slip of the pen."""
    if "ended_at" in first.get("schedule", {}):
        raise UnfitTriggerError({"": "all its times have passed, so it would start nothing; choose a time to come"})


async def _check_room(ground: Ground, viewer: str | None) -> None:
    """So that one app's key cannot fill the store that all share. Several at once may go beyond it a little."""
    if viewer is None:
        return
    own = {"app_id": viewer, "spec.type": {"$exists": True}}
    if await ground.triggers.triggers.count_documents(own, limit=MOST_OF_AN_APP) == MOST_OF_AN_APP:
        raise RefusedError(f"{viewer} has {MOST_OF_AN_APP} triggers already; remove some, or ask whoever operates this")


def only_made_at_run_time(known: Known) -> Known:
    if known.app_id is None:
        raise RefusedError(f"{known.id} is declared by its package; edit its triggers.yaml instead")
    return known


def _at_first(trigger: Trigger, before: Mapping[str, Any] | None) -> Mapping[str, Any]:
    return KINDS[trigger.spec.type].at_first(trigger, datetime.now(UTC), before)


async def _gone_or_edited(ground: Ground, id_: str) -> Exception:
    now = await ground.triggers.find(id_)
    return UnknownTriggerError(id_) if now is None else EditedMeanwhileError(id_, revision=now.revision)


async def _as_kept(ground: Ground, id_: str) -> Known:
    record = await ground.triggers.find(id_)
    if record is None:  # removed in this very moment
        raise UnknownTriggerError(id_)
    return made(record)
