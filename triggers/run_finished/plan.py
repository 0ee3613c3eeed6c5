"""The stream of ended runs: of our own collection `runs`, only what triggers wait for comes across."""

from collections.abc import Sequence

from triggers.change_stream.known import Chain
from triggers.change_stream.plan import Stage, StreamPlan
from triggers.change_stream.stages import THE_END
from triggers.change_stream.stream_ids import ended_runs_stream
from workflows.package.trigger_specs.change import KEPT_FIELDS
from workflows.package.trigger_specs.run_finished import STATES

RUNS = "runs"
NEW_STATE = "updateDescription.updatedFields.state"


def ended_runs_plan(chains: Sequence[Chain], *, own_database: str) -> StreamPlan:
    workflows = sorted({chain.spec.workflow for chain in chains})
    return StreamPlan(
        id=ended_runs_stream(own_database),
        database=own_database,
        triggers=tuple(chain.trigger for chain in chains),
        stages=_stages(workflows),
        full_document="updateLookup",
        since={chain.trigger.id: chain.since for chain in chains if chain.since is not None},
    )


def _stages(workflows: Sequence[str]) -> tuple[Stage, ...]:
    ends = {"operationType": "update", "ns.coll": RUNS, NEW_STATE: {"$in": list(STATES)}}
    # A run that is gone already has no workflow any more: the intake says so.
    wanted = [{"fullDocument.workflow": {"$in": list(workflows)}}, {"fullDocument": None}]
    return (
        {"$match": {"$or": [ends, THE_END]}},  # by itself, so that nothing else is looked up
        {"$match": {"$or": [*wanted, THE_END]}},
        {"$project": {**dict.fromkeys(KEPT_FIELDS, 1), "fullDocument": 1, NEW_STATE: 1}},
    )
