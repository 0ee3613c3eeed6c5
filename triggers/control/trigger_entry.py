"""A known trigger: what a package declares or somebody made at run time, together with what its document says."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from pymongo.asynchronous.database import AsyncDatabase

from triggers.api_keys import HOW_TO_APPROVE
from triggers.control.trigger_errors import NotForThisKeyError, UnknownWorkflowError
from triggers.register.trigger import Origin, Trigger, declared_triggers, is_for_app, trigger_id
from triggers.register.trigger_record import Pause, TriggerRecord
from triggers.register.trigger_store import TriggerStore
from workers.control.changed import of_app
from workers.control.errors import RefusedError
from workers.settings import Settings
from workers.store.run_store import RunStore
from workflows.package.catalog import Catalog
from workflows.package.normal_form.package_model import Package


class ControlContext(Protocol):
    """What looking at triggers and changing them needs. A role's ground has it, and more."""

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
    """For a command that starts no run, and so needs no broker."""

    settings: Settings
    database: AsyncDatabase[dict[str, Any]]
    triggers: TriggerStore
    catalog: Catalog


@dataclass(frozen=True, slots=True)
class TriggerEntry:
    """`trigger` is None for one that was written by another version and cannot be read by this one."""

    workflow: str
    name: str
    type: str
    app_id: str | None  # of one that was made at run time
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
        """What is said of it is said of this app alone."""
        return self.apps == (app_id,)

    def pause_of(self, app_id: str | None) -> Pause | None:
        return None if self.record is None else self.record.pause_of(app_id)


def approval_fields(trigger: Trigger, by: str) -> dict[str, Any]:
    """What the document of a trigger made at run time keeps of its standing answers: who approved them."""
    return {"answers_approved_by": by if trigger.spec.ui_responses else None}


def check_answers_approved(entry: TriggerEntry, *, may_approve: bool) -> None:
    """Refuses to start runs by hand where standing answers were never approved: an older version took them from every
    key. A package's answers are its author's."""
    if not may_approve and None in approval_status(entry).values():
        raise NotForThisKeyError(
            f"the ui_responses of {entry.id} answer for people, and no key that may approve has made them; "
            f"edit the trigger with such a key: {HOW_TO_APPROVE}"
        )


async def check_replay_approved(
    context: ControlContext, runs: RunStore, run_id: str, *, app_id: str | None, may_approve: bool
) -> None:
    """Refuses to replay a run that brought standing answers along which its trigger does not give any more, or which
    were never approved: the replay would be given them again."""
    if may_approve:
        return
    fields = dict.fromkeys(("app_id", "workflow", "trigger.name", "ui_responses"), 1)
    run = await runs.runs.find_one(of_app(run_id, app_id), fields)
    if run is None or not run.get("ui_responses"):
        return
    record = await context.triggers.find(trigger_id(run["workflow"], run["trigger"]["name"], app_id=run["app_id"]))
    given = None if record is None or record.spec is None else record.spec.ui_responses
    if record is None or given != run["ui_responses"] or record.document.get("answers_approved_by") is None:
        raise NotForThisKeyError(
            f"{run_id} has ui_responses that answer for people, and they are not those that were approved for its "
            f"trigger; replay it with a key that may approve: {HOW_TO_APPROVE}"
        )


def approval_status(entry: TriggerEntry) -> dict[str, Any]:
    """Who approved the standing answers of a trigger made at run time; None where no key that may has made them."""
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
    """Why a package is not started is for whoever operates it: an app learns that there is none."""
    if workflow in catalog.packages():
        return
    why = None if viewer is not None else catalog.explain_refusal(workflow)
    if why is None:
        raise UnknownWorkflowError(workflow)
    raise RefusedError(why)
