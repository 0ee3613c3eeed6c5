"""The indexes of `runs` and `turns`, each with the question it answers."""

from pymongo import ASCENDING, DESCENDING, IndexModel

from workers.store.debounce import DEBOUNCE_INDEXES
from workers.store.run import NOT_SUCCEEDED, RunState
from workers.store.run_order import ORDER_INDEXES

RUN_INDEXES = (
    IndexModel([("dedupe_key", ASCENDING)], name="one_run_per_event", unique=True),
    # Whose turn is next: the ready runs of an app, the most urgent first, then the one that was accepted first
    # (run ids sort by time). Only what may be claimed now is in it, so that neither backlog nor history is scanned.
    IndexModel(
        [("lane", ASCENDING), ("priority", DESCENDING), ("_id", ASCENDING)],
        name="by_lane",
        partialFilterExpression={"lane": {"$exists": True}},
    ),
    # Which limits hold runs back, which apps or workflows wait there, and who of them is let go next.
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
    # How many runs of an app, or of a workflow, are being worked on: what the caps count.
    IndexModel(
        [("app_id", ASCENDING)], name="running_by_app", partialFilterExpression={"state": RunState.RUNNING.value}
    ),
    IndexModel(
        [("workflow", ASCENDING)],
        name="running_by_workflow",
        partialFilterExpression={"state": RunState.RUNNING.value},
    ),
    # The reconciler's questions: which queued run that no lane knows is due (`lane` stands before the time, so that a
    # backlog of ready ones is not read), which ready run may have lost its ticket, whose lease ran out.
    IndexModel(
        [("hold", ASCENDING), ("lane", ASCENDING), ("wake_at", ASCENDING)],
        name="by_lane_and_wake_up",
        partialFilterExpression={"state": RunState.QUEUED.value},
    ),
    IndexModel([("wake_at", ASCENDING)], name="by_ticket", partialFilterExpression={"lane": {"$exists": True}}),
    IndexModel(
        [("lease.until", ASCENDING)], name="by_lease_end", partialFilterExpression={"state": RunState.RUNNING.value}
    ),
    # Retention: what ended longest ago.
    IndexModel(
        [("state", ASCENDING), ("finished_at", ASCENDING)],
        name="by_end",
        partialFilterExpression={"finished_at": {"$type": "date"}},
    ),
    # Which apps and workflows wait for a person, how many of their runs, and since when: counted without reading a run.
    IndexModel(
        [("state", ASCENDING), ("app_id", ASCENDING), ("workflow", ASCENDING), ("finished_at", ASCENDING)],
        name="waiting_for_person",
        partialFilterExpression={"state": RunState.NEEDS_HUMAN.value},
    ),
    # What `overlap` asks: which earlier runs of a trigger and app still go on; and how many of the newest have failed.
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
    # `unattended runs list` is newest first, also among runs of one millisecond, and reads no more than it shows.
    IndexModel([("created_at", DESCENDING), ("_id", DESCENDING)], name="by_time"),
    # The same for `--app`: in a large store most of what is newest belongs to others.
    IndexModel([("app_id", ASCENDING), ("created_at", DESCENDING), ("_id", DESCENDING)], name="by_app_and_time"),
    # `--state failed` and the like: few among many that succeeded. A run that succeeds is never in it.
    IndexModel(
        [("state", ASCENDING), ("created_at", DESCENDING), ("_id", DESCENDING)],
        name="by_rest_and_time",
        partialFilterExpression={"state": {"$in": [state.value for state in NOT_SUCCEEDED]}},
    ),
    *ORDER_INDEXES,
    *DEBOUNCE_INDEXES,
)
# Of older versions, whose questions are answered by others now.
OBSOLETE_RUN_INDEXES = ("by_trigger",)

TURN_INDEXES = (IndexModel([("run_id", ASCENDING), ("number", ASCENDING)], name="by_run"),)
