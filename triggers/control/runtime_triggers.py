"""Runtime triggers: created, edited and removed by API or command.

They are validated like a package's triggers, belong to one app, and start runs of that app only.
"""

import logging
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from pydantic import ValidationError

from triggers.api_keys import HOW_TO_APPROVE
from triggers.control.trigger_entry import (
    ControlContext,
    TriggerEntry,
    approval_fields,
    check_workflow_started,
    runtime_entry,
)
from triggers.control.trigger_errors import (
    EditedMeanwhileError,
    NotForThisKeyError,
    UnfitTriggerError,
    UnknownTriggerError,
)
from triggers.kind_registry import KINDS
from triggers.occurrence import MAX_APP_ID_LENGTH, parse_app_id
from triggers.register.trigger import Trigger, shadowing_spec
from triggers.register.trigger_store import TriggerExistsError
from workers.control.change_result import RefusedError
from workers.store.storable import NotStorableError, check_storable
from workflows.package.trigger_specs.base_spec import is_expression
from workflows.package.trigger_specs.schedule_spec import AppsOfCollection
from workflows.package.trigger_specs.spec_problems import list_problems
from workflows.package.trigger_specs.trigger_spec import SPEC_BY_TYPE, TriggerSpec

log = logging.getLogger(__name__)

MAX_TRIGGERS_PER_APP = 10_000  # created by the app's own keys
MAX_SPEC_BYTES = 64 * 1024  # one tick may read the specs of a thousand schedules


async def create_trigger(
    context: ControlContext,
    workflow: str,
    app_id: str,
    raw_spec: Mapping[str, Any],
    *,
    by: str,
    viewer: str | None = None,
    may_approve: bool = True,
) -> TriggerEntry:
    """Creates a trigger from a spec as in a package.

    `viewer`: the app of the caller's key; None for a key of all apps. `may_approve`: allows `ui_responses`.
    """
    check_workflow_started(context.catalog, workflow, viewer=viewer)
    trigger = Trigger(workflow, validate_spec(raw_spec, app_id=app_id), _check_app_id(app_id))
    _check_key_allowed(trigger, viewer)
    _check_standing_answers(trigger, may_approve=may_approve)
    initial = _initial_fields(trigger, None)
    _check_fires_again(initial)
    if shadowing_spec(context.catalog.packages(), workflow, trigger.spec.name, app_id) is not None:
        raise RefusedError(f"the package {workflow} has a trigger {trigger.spec.name} for {app_id}; take another name")
    await _check_trigger_count(context, viewer)
    try:
        await context.triggers.create(trigger, extra_fields={**initial, **approval_fields(trigger, by)})
    except TriggerExistsError:
        raise RefusedError(f"there is a trigger {trigger.id} already; edit it, or take another name") from None
    log.info("trigger_made", extra={"trigger": trigger.id, "type": trigger.spec.type, "by": by})
    return await _read_entry(context, trigger.id)


async def edit(
    context: ControlContext,
    entry: TriggerEntry,
    raw_spec: Mapping[str, Any],
    *,
    by: str,
    revision: int | None = None,
    viewer: str | None = None,
    may_approve: bool = True,
) -> TriggerEntry:
    """Replaces the spec if the trigger still has `revision`; None overwrites any.

    Each edit of a trigger with `ui_responses` needs the right to approve, since other runs then get these answers.
    """
    record = require_runtime_trigger(entry).record
    app_id = str(entry.app_id)
    found = 0 if record is None else record.revision
    if revision is not None and revision != found:
        raise EditedMeanwhileError(entry.id, revision=found)
    check_workflow_started(context.catalog, entry.workflow, viewer=viewer)
    spec = validate_spec({"name": entry.name, "type": entry.type, **raw_spec}, app_id=app_id)
    _check_same(entry, spec)
    trigger = Trigger(entry.workflow, spec, app_id, found)
    _check_key_allowed(trigger, viewer)
    _check_standing_answers(trigger, may_approve=may_approve)
    extra_fields = {
        **_initial_fields(trigger, None if record is None else record.document),
        **approval_fields(trigger, by),
    }
    if not await context.triggers.replace(trigger, expected_revision=found, extra_fields=extra_fields):
        raise await _conflict_error(context, entry.id)
    log.info("trigger_edited", extra={"trigger": entry.id, "revision": found + 1, "by": by})
    return await _read_entry(context, entry.id)


async def remove(context: ControlContext, entry: TriggerEntry, *, by: str, revision: int | None = None) -> None:
    """Removes the trigger if it still has `revision`; None removes any. Its runs stay."""
    require_runtime_trigger(entry)
    if not await context.triggers.remove(entry.id, expected_revision=revision):
        raise await _conflict_error(context, entry.id)
    log.info("trigger_removed", extra={"trigger": entry.id, "by": by})


def validate_spec(raw_spec: Mapping[str, Any], *, app_id: str) -> TriggerSpec:
    """Raises UnfitTriggerError with every problem at once."""
    kind = raw_spec.get("type")
    model = SPEC_BY_TYPE.get(kind.strip().lower()) if isinstance(kind, str) else None
    if model is None:
        raise UnfitTriggerError({"type": f"must be one of {', '.join(sorted(KINDS))}"})
    fields = {field: value for field, value in raw_spec.items() if value is not None}
    try:
        check_storable(fields, path="spec", any_key=True)
        spec = model.model_validate({**fields, "type": model.model_fields["type"].default})
        spec_json = spec.model_dump_json(by_alias=True, exclude_unset=True)
    except ValidationError as error:
        raise UnfitTriggerError({problem.place: problem.message for problem in list_problems(error)}) from None
    except NotStorableError as error:
        raise UnfitTriggerError({"": str(error)}) from None
    if len(spec_json.encode()) > MAX_SPEC_BYTES:
        raise UnfitTriggerError({"": f"the trigger is larger than {MAX_SPEC_BYTES // 1024} KB; make it smaller"})
    _check_app(spec, app_id)
    return spec


def _check_app(spec: TriggerSpec, app_id: str) -> None:
    reason = f"a trigger created at run time belongs to one app, here {app_id}; leave it out"
    if isinstance(spec.apps, AppsOfCollection) or set(spec.apps) - {app_id}:
        raise UnfitTriggerError({"apps": reason})
    if is_expression(spec.app_id) or spec.literal_app not in (None, app_id):
        raise UnfitTriggerError({"app_id": reason})


def _check_app_id(app_id: str) -> str:
    if parse_app_id(app_id) is None:
        raise UnfitTriggerError({"app_id": f"must be printable text of at most {MAX_APP_ID_LENGTH} characters"})
    return app_id


def _check_key_allowed(trigger: Trigger, viewer: str | None) -> None:
    refusal = None if viewer is None else KINDS[trigger.spec.type].app_key_refusal(trigger.spec)
    if refusal is not None:
        raise NotForThisKeyError(refusal)


def _check_standing_answers(trigger: Trigger, *, may_approve: bool) -> None:
    if trigger.spec.ui_responses and not may_approve:
        raise NotForThisKeyError(f"ui_responses answer for people, and this key may not approve; {HOW_TO_APPROVE}")


def _check_same(entry: TriggerEntry, spec: TriggerSpec) -> None:
    same = {"name": (entry.name, spec.name), "type": (entry.type, spec.type)}
    problems = {
        field: f"is {before} and cannot change; create another trigger instead"
        for field, (before, after) in same.items()
        if before != after
    }
    if problems:
        raise UnfitTriggerError(problems)


def _check_fires_again(initial: Mapping[str, Any]) -> None:
    """Refuses a new schedule without a future time, which is a mistake.

    An edit may end one.
    """
    if "ended_at" in initial.get("schedule", {}):
        raise UnfitTriggerError({"": "all its times have passed, so it would start nothing; choose a future time"})


async def _check_trigger_count(context: ControlContext, viewer: str | None) -> None:
    """Keeps one app's key from filling the shared store.

    Concurrent calls may exceed it a little.
    """
    if viewer is None:
        return
    if await context.triggers.count_runtime_triggers(viewer, limit=MAX_TRIGGERS_PER_APP) == MAX_TRIGGERS_PER_APP:
        raise RefusedError(f"{viewer} has {MAX_TRIGGERS_PER_APP} triggers already; remove some, or ask the operator")


def require_runtime_trigger(entry: TriggerEntry) -> TriggerEntry:
    if entry.app_id is None:
        raise RefusedError(f"{entry.id} is declared by its package; edit its triggers.yaml instead")
    return entry


def _initial_fields(trigger: Trigger, before: Mapping[str, Any] | None) -> Mapping[str, Any]:
    return KINDS[trigger.spec.type].initial_fields(trigger, datetime.now(UTC), before)


async def _conflict_error(context: ControlContext, id_: str) -> Exception:
    now = await context.triggers.find(id_)
    return UnknownTriggerError(id_) if now is None else EditedMeanwhileError(id_, revision=now.revision)


async def _read_entry(context: ControlContext, id_: str) -> TriggerEntry:
    record = await context.triggers.find(id_)
    if record is None:  # removed since the write
        raise UnknownTriggerError(id_)
    return runtime_entry(record)
