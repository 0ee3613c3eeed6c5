"""The indexes of `runs` and `turns`, each with the queries that it answers."""

from pymongo import ASCENDING, DESCENDING, IndexModel

from workers.store.debounce import DEBOUNCE_INDEXES
from workers.store.run import NOT_SUCCEEDED, RunState
from workers.store.run_order import ORDER_INDEXES

RUN_INDEXES = (
    IndexModel([("dedupe_key", ASCENDING)], name="one_run_per_event", unique=True),
    # The next run of a lane: the ready runs of an app, the most urgent first, then the one that was accepted first
    # (run ids sort by time). Only what may be claimed now is in it, so that neither backlog nor history is scanned.
    IndexModel(
        [("lane", ASCENDING), ("priority", DESCENDING), ("_id", ASCENDING)],
        name="by_lane",
        partialFilterExpression={"lane": {"$exists": True}},
    ),
    # The limits that hold runs, the apps or workflows that wait there, and the run to release next.
    IndexModel(
        [
            ("held_by", ASCENDING),
            ("app_id", ASCENDING),
            ("workflow", ASCENDING),
            ("priority", DESCENDING),
            ("_id", ASCENDING),
        ],
        name="by_limit_and_workflow",
        partialFilterExpression={"held_by": {"$exists": True}},
    ),
    # The number of running runs of an app, or of a workflow, for caps.
    IndexModel(
        [("app_id", ASCENDING)], name="running_by_app", partialFilterExpression={"state": RunState.RUNNING.value}
    ),
    IndexModel(
        [("workflow", ASCENDING)],
        name="running_by_workflow",
        partialFilterExpression={"state": RunState.RUNNING.value},
    ),
    # Queries of the reconciler: due runs in no lane (`lane` precedes the time, so that a
    # backlog of ready ones is not read), ready runs that may have lost their tickets, and expired leases.
    IndexModel(
        [("hold", ASCENDING), ("lane", ASCENDING), ("wake_at", ASCENDING)],
        name="by_lane_and_wake_up",
        partialFilterExpression={"state": RunState.QUEUED.value},
    ),
    IndexModel([("wake_at", ASCENDING)], name="by_ticket", partialFilterExpression={"lane": {"$exists": True}}),
    IndexModel(
        [("lease.until", ASCENDING)], name="by_lease_end", partialFilterExpression={"state": RunState.RUNNING.value}
    ),
    # Retention: the runs that ended longest ago.
    IndexModel(
        [("state", ASCENDING), ("finished_at", ASCENDING)],
        name="by_end",
        partialFilterExpression={"finished_at": {"$type": "date"}},
    ),
    # The apps and workflows that wait for a person, with counts and ages, without reading a run.
    IndexModel(
        [("state", ASCENDING), ("app_id", ASCENDING), ("workflow", ASCENDING), ("finished_at", ASCENDING)],
        name="waiting_for_person",
        partialFilterExpression={"state": RunState.NEEDS_HUMAN.value},
    ),
    # `overlap`: the unfinished runs of a trigger and app; and how many of the newest have failed.
    IndexModel(
        [
            ("workflow", ASCENDING),
            ("trigger.name", ASCENDING),
            ("app_id", ASCENDING),
            ("state", ASCENDING),
            ("_id", ASCENDING),
        ],
        name="by_trigger_and_state",
    ),
    # `unattended runs list`: newest first, even within a millisecond; reads only the runs that it shows.
    IndexModel([("created_at", DESCENDING), ("_id", DESCENDING)], name="by_time"),
    # The same for `--app`: in a large store most of the newest runs belong to other apps.
    IndexModel([("app_id", ASCENDING), ("created_at", DESCENDING), ("_id", DESCENDING)], name="by_app_and_time"),
    # `--state failed` and similar: few among many that succeeded. It holds no run that succeeded.
    IndexModel(
        [("state", ASCENDING), ("created_at", DESCENDING), ("_id", DESCENDING)],
        name="by_rest_and_time",
        partialFilterExpression={"state": {"$in": [state.value for state in NOT_SUCCEEDED]}},
    ),
    *ORDER_INDEXES,
    *DEBOUNCE_INDEXES,
)
# Indexes of older versions, replaced by those above.
OBSOLETE_RUN_INDEXES = ("by_trigger",)

TURN_INDEXES = (IndexModel([("run_id", ASCENDING), ("number", ASCENDING)], name="by_run"),)
