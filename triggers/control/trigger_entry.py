"""Trigger entries: a package or runtime trigger together with its record."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from pymongo.asynchronous.database import AsyncDatabase

from triggers.api_keys import HOW_TO_APPROVE
from triggers.control.trigger_errors import NotForThisKeyError, UnknownWorkflowError
from triggers.register.trigger import Origin, Trigger, declared_triggers, is_for_app, trigger_id
from triggers.register.trigger_record import Pause, TriggerRecord
from triggers.register.trigger_store import TriggerStore
from workers.control.change_result import RefusedError
from workers.settings import Settings
from workers.store.run_reads import RunReads
from workers.store.run_store import RunStore
from workflows.package.catalog import Catalog
from workflows.package.normal_form.package_model import Package


class ControlContext(Protocol):
    """What it takes to show and change triggers. A role context has it, and more."""

    @property
    def settings(self) -> Settings: ...
    @property
    def database(self) -> AsyncDatabase[dict[str, Any]]: ...
    @property
    def triggers(self) -> TriggerStore: ...
    @property
    def catalog(self) -> Catalog: ...


@dataclass(frozen=True, slots=True)
class BrokerlessContext:
    """The context of a command that starts no run and needs no broker."""

    settings: Settings
    database: AsyncDatabase[dict[str, Any]]
    triggers: TriggerStore
    catalog: Catalog


@dataclass(frozen=True, slots=True)
class TriggerEntry:
    """`trigger` is None when another version wrote it and this one cannot read it."""

    workflow: str
    name: str
    type: str
    app_id: str | None  # of one created at run time
    trigger: Trigger | None
    record: TriggerRecord | None

    @property
    def id(self) -> str:
        return trigger_id(self.workflow, self.name, app_id=self.app_id)

    @property
    def origin(self) -> Origin:
        return "package" if self.app_id is None else "api"

    @property
    def apps(self) -> tuple[str, ...]:
        if self.app_id is not None:
            return (self.app_id,)
        return () if self.trigger is None else self.trigger.apps

    def is_for_app(self, app_id: str) -> bool:
        if self.app_id is not None:
            return self.app_id == app_id
        return self.trigger is not None and is_for_app(self.trigger.spec, app_id)

    def is_only_for(self, app_id: str) -> bool:
        """Returns whether all its data concerns this app alone."""
        return self.apps == (app_id,)

    def pause_of(self, app_id: str | None) -> Pause | None:
        return None if self.record is None else self.record.pause_of(app_id)


def approval_fields(trigger: Trigger, by: str) -> dict[str, Any]:
    """Returns the field that stores which key approved the `ui_responses`."""
    return {"answers_approved_by": by if trigger.spec.ui_responses else None}


def check_answers_approved(entry: TriggerEntry, *, may_approve: bool) -> None:
    """Refuses a manual start with `ui_responses` that were never approved.

    An older version accepted them from each key. Those of a package are its author's.
    """
    if not may_approve and None in approval_status(entry).values():
        raise NotForThisKeyError(
            f"the ui_responses of {entry.id} answer for people, and no key with the right to approve has set them; "
            f"edit the trigger with such a key: {HOW_TO_APPROVE}"
        )


async def check_replay_approved(
    context: ControlContext, runs: RunStore, run_id: str, *, app_id: str | None, may_approve: bool
) -> None:
    """Refuses to replay a run whose `ui_responses` are gone or never approved.

    The replay would get them again.
    """
    if may_approve:
        return
    fields = ("app_id", "workflow", "trigger.name", "ui_responses")
    run = await RunReads(runs).find_fields(run_id, fields, app_id=app_id)
    if run is None or not run.get("ui_responses"):
        return
    record = await context.triggers.find(trigger_id(run["workflow"], run["trigger"]["name"], app_id=run["app_id"]))
    current = None if record is None or record.spec is None else record.spec.ui_responses
    if record is None or current != run["ui_responses"] or record.document.get("answers_approved_by") is None:
        raise NotForThisKeyError(
            f"{run_id} has ui_responses that answer for people, and these are not approved for its trigger; "
            f"replay it with a key that may approve: {HOW_TO_APPROVE}"
        )


def approval_status(entry: TriggerEntry) -> dict[str, Any]:
    """Returns which key approved a runtime trigger's `ui_responses`, or None."""
    if entry.app_id is None or entry.trigger is None or not entry.trigger.spec.ui_responses:
        return {}
    return {"answers_approved_by": None if entry.record is None else entry.record.document.get("answers_approved_by")}


def declared_entry(trigger: Trigger, record: TriggerRecord | None = None) -> TriggerEntry:
    spec = trigger.spec
    return TriggerEntry(trigger.workflow, spec.name, spec.type, trigger.app_id, trigger, record)


def runtime_entry(record: TriggerRecord) -> TriggerEntry:
    return TriggerEntry(record.workflow, record.name, record.document["type"], record.app_id, record.trigger, record)


def package_entries(packages: Mapping[str, Package]) -> Iterator[TriggerEntry]:
    return (declared_entry(trigger) for trigger in declared_triggers(packages))


def check_workflow_started(catalog: Catalog, workflow: str, *, viewer: str | None) -> None:
    """Raises for a workflow that is not started. Only operators learn why."""
    if workflow in catalog.packages():
        return
    reason = None if viewer is not None else catalog.explain_refusal(workflow)
    if reason is None:
        raise UnknownWorkflowError(workflow)
    raise RefusedError(reason)
