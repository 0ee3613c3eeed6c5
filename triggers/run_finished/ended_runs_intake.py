"""The intake of ended runs: starts the runs of triggers that wait for an end."""

from collections.abc import Collection, Hashable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Literal

from accounting.infra.aio import gather_all
from triggers.change_stream.bson_to_json import to_plain
from triggers.change_stream.change_intake import Event, read_event_time
from triggers.change_stream.run_starter import RunIntent, RunStarter
from triggers.change_stream.stream_plan import MATCH_INVALIDATE, Stage, StreamPlan, ended_runs_stream_id
from triggers.change_stream.watched_triggers import ChainTrigger
from triggers.event_expressions import ExpressionError, is_condition_met
from triggers.occurrence import Occurrence, build_run_request
from workers.store.run import RunRequest, RunState
from workers.store.run_document import as_json
from workers.store.run_store import RunStore
from workflows.package.trigger_specs.change_spec import PROTECTED_FIELDS
from workflows.package.trigger_specs.run_finished_spec import ANY_OUTCOME, STATES

MAX_CHAIN_LENGTH = 10

RUNS_COLLECTION = "runs"
NEW_STATE_FIELD = "updateDescription.updatedFields.state"

RunDocument = Mapping[str, Any]
StopReason = Literal["cycle", "too_deep"]


class EndedRunsIntake:
    def __init__(self, chains: Sequence[ChainTrigger], starter: RunStarter, runs: RunStore) -> None:
        self._chains = chains
        self._starter = starter
        self._runs = runs

    def lanes(self, event: Event) -> Collection[Hashable]:  # noqa: ARG002 -- the protocol's
        return ()  # runs of one chain follow each other by themselves

    async def process(self, events: Sequence[Event]) -> None:
        intents = [intent for found in await gather_all(map(self._intents, events)) for intent in found]
        if intents:
            await self._starter.start(intents)

    async def _intents(self, event: Event) -> Sequence[RunIntent]:
        run_id = event["documentKey"]["_id"]
        state = event["updateDescription"]["updatedFields"]["state"]
        # fullDocument is missing for a run that was too large for its event, or that is gone.
        run = event.get("fullDocument") or await self._runs.find(run_id)
        if run is None:
            self._record_gone_run(run_id, state)
            return []
        ended_at = read_event_time(event)
        waiting = [chain for chain in self._chains if is_awaited_end(chain, run, state, ended_at=ended_at)]
        if not waiting:
            return []
        visible_run = to_plain({**as_json(run), "state": state})
        intents = (self._intent(chain, run, visible_run, state) for chain in waiting)
        return [intent for intent in intents if intent is not None]

    def _intent(
        self, chain: ChainTrigger, run: Mapping[str, Any], visible_run: Mapping[str, Any], state: str
    ) -> RunIntent | None:
        trigger, app_id, event_id = chain.trigger, run["app_id"], ended_run_event_id(run, state)
        try:
            if not is_condition_met(chain.spec.when, visible_run):
                self._starter.count_skip(trigger)
                return None
            if self._starter.is_paused(trigger, app_id, event_id):
                return None
            stop = chain_stop_reason(chain, run)
            if stop is not None:
                chain_text = " > ".join(run["chain"])
                self._starter.record_skip(trigger, stop, app_id=app_id, event_id=event_id, detail=chain_text)
                return None
            return RunIntent(
                trigger, build_chained_request(chain, run, visible_run, state=state, now=datetime.now(UTC))
            )
        except ExpressionError as error:
            self._starter.record_skip(trigger, "unmappable", app_id=app_id, event_id=event_id, detail=str(error))
            return None

    def _record_gone_run(self, run_id: str, state: str) -> None:
        """Records a skip for each trigger: the workflow of the run is unknown.

        Its app is unknown too, so a trigger that belongs to an app does not get the run's id.
        """
        for chain in self._chains:
            event_id = f"{run_id}:{state}" if chain.trigger.app_id is None else ""
            detail = "the run was removed before its end was seen; it may have been one that this trigger waits for"
            self._starter.record_skip(chain.trigger, "gone", event_id=event_id, detail=detail)


def is_awaited_end(chain: ChainTrigger, run: RunDocument, state: str, *, ended_at: datetime) -> bool:
    """Judges by the `state` of the event: the document may be in a later one already."""
    if chain.spec.workflow != run["workflow"] or not _is_for_app(chain, run["app_id"]):
        return False
    if chain.since is not None and ended_at < chain.since.replace(microsecond=0):
        return False
    return has_outcome(chain, run, state)


def has_outcome(chain: ChainTrigger, run: RunDocument, state: str) -> bool:
    """Returns whether the run ended in an awaited state or with an outcome.

    A parked run that is replayed or discarded becomes cancelled and keeps its outcome: two ends by state, and one by
    outcome.
    """
    awaited = chain.spec.outcome
    if state in awaited:
        return True
    if state == RunState.CANCELLED.value and run.get("resolved"):
        return False
    return ANY_OUTCOME in awaited or (run.get("outcome") or {}).get("kind") in awaited


def extend_chain(chain: ChainTrigger, run: RunDocument) -> tuple[str, ...]:
    return (*(run.get("chain") or ()), chain.trigger.label)


def chain_stop_reason(chain: ChainTrigger, run: RunDocument) -> StopReason | None:
    labels = run.get("chain") or ()
    if chain.trigger.label in labels:
        return "cycle"
    return "too_deep" if len(labels) >= MAX_CHAIN_LENGTH else None


def ended_run_event_id(run: RunDocument, state: str) -> str:
    """Includes the state: a run that parks and is cancelled later ends twice."""
    return f"{run['_id']}:{state}"


def build_chained_request(
    chain: ChainTrigger, run: RunDocument, event: Mapping[str, Any], *, state: str, now: datetime
) -> RunRequest:
    """Maps the run, as expressions see it. Raises ExpressionError when that fails."""
    occurrence = Occurrence(chain.trigger, run["app_id"], ended_run_event_id(run, state), now, event)
    return build_run_request(
        occurrence,
        parent_run_id=run["_id"],
        correlation_id=run.get("correlation_id"),
        chain=extend_chain(chain, run),
    )


def _is_for_app(chain: ChainTrigger, app_id: str) -> bool:
    return not chain.trigger.apps or app_id in chain.trigger.apps


def plan_ended_runs_stream(chains: Sequence[ChainTrigger], *, own_database: str) -> StreamPlan:
    """Plans the stream of our own collection `runs`, filtered to the awaited ends."""
    workflows = sorted({chain.spec.workflow for chain in chains})
    return StreamPlan(
        id=ended_runs_stream_id(own_database),
        database=own_database,
        triggers=tuple(chain.trigger for chain in chains),
        stages=_ended_runs_stages(workflows),
        full_document="updateLookup",
        since={chain.trigger.id: chain.since for chain in chains if chain.since is not None},
    )


def _ended_runs_stages(workflows: Sequence[str]) -> tuple[Stage, ...]:
    ends = {"operationType": "update", "ns.coll": RUNS_COLLECTION, NEW_STATE_FIELD: {"$in": list(STATES)}}
    # The event of a removed run has no workflow; the intake records a skip for it.
    awaited = [{"fullDocument.workflow": {"$in": list(workflows)}}, {"fullDocument": None}]
    return (
        {"$match": {"$or": [ends, MATCH_INVALIDATE]}},  # a stage of its own, so that no other document is looked up
        {"$match": {"$or": [*awaited, MATCH_INVALIDATE]}},
        {"$project": {**dict.fromkeys(PROTECTED_FIELDS, 1), "fullDocument": 1, NEW_STATE_FIELD: 1}},
    )
