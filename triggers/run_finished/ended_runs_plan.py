"""The stream of ended runs: of our own collection `runs`, only what triggers wait for comes across."""

from collections.abc import Sequence

from triggers.change_stream.stream_plan import MATCH_INVALIDATE, Stage, StreamPlan, ended_runs_stream_id
from triggers.change_stream.watched_triggers import ChainTrigger
from workflows.package.trigger_specs.change_spec import PROTECTED_FIELDS
from workflows.package.trigger_specs.run_finished_spec import STATES

RUNS_COLLECTION = "runs"
NEW_STATE_FIELD = "updateDescription.updatedFields.state"


def plan_ended_runs_stream(chains: Sequence[ChainTrigger], *, own_database: str) -> StreamPlan:
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
    # A run that is gone already has no workflow any more: the intake says so.
    wanted = [{"fullDocument.workflow": {"$in": list(workflows)}}, {"fullDocument": None}]
    return (
        {"$match": {"$or": [ends, MATCH_INVALIDATE]}},  # by itself, so that nothing else is looked up
        {"$match": {"$or": [*wanted, MATCH_INVALIDATE]}},
        {"$project": {**dict.fromkeys(PROTECTED_FIELDS, 1), "fullDocument": 1, NEW_STATE_FIELD: 1}},
    )
