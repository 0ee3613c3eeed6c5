"""Changes to runs by people: each is one atomic update of the run as it was read, or changes nothing."""

from collections.abc import Mapping, Sequence
from typing import Any

from workers.store.run import RunState
from workers.store.run_document import CLEAR_ORDER_HEAD, NOT_READY, READY, Document, literal
from workers.store.run_store import RunStore
from workers.store.run_transitions import transition_filter
from workflows.outcome import OutcomeKind


class RunChanges:
    """Each method returns False if the run has changed since it was read."""

    def __init__(self, store: RunStore) -> None:
        self._runs = store.runs

    async def end_as_cancelled(self, run: Document, *, by: str, usage: Mapping[str, Any]) -> bool:
        end = {
            **NOT_READY,
            **CLEAR_ORDER_HEAD,
            "state": RunState.CANCELLED.value,
            "question": None,
            "questions": "$$REMOVE",
            "not_before": None,
            "outcome": {
                "kind": OutcomeKind.CANCELLED.value,
                "reason": literal(f"cancelled by {by}"),
                "error": None,
            },
            "usage": literal(dict(usage)),
            "finished_at": "$$NOW",
        }
        return await self._end(run, end)

    async def resolve_parked(self, run: Document, *, by: str) -> bool:
        """Ends a run that is at rest.

        Its outcome stays, since it was counted under that.
        """
        resolved = {"at": "$$NOW", "by": literal(by), "how": "discarded"}
        return await self._end(run, {"state": RunState.CANCELLED.value, "resolved": resolved, "finished_at": "$$NOW"})

    async def _end(self, run: Document, change: Document) -> bool:
        """Ends the run with the token that was read.

        No owner has worked on the run since its usage was summed up.
        """
        same = {
            "_id": run["_id"],
            "state": transition_filter(RunState(run["state"]), RunState.CANCELLED),
            "lease.token": run["lease"]["token"],
        }
        return (await self._runs.update_one(same, [{"$set": change}])).matched_count > 0

    async def resolve_replayed(self, run_id: str, *, new_run_id: str, by: str) -> bool:
        parked = {"_id": run_id, "state": transition_filter(RunState.PARKED, RunState.CANCELLED)}
        resolved = {"at": "$$NOW", "by": literal(by), "how": "replayed", "run_id": new_run_id}
        end = {"state": RunState.CANCELLED.value, "resolved": resolved, "finished_at": "$$NOW"}
        return (await self._runs.update_one(parked, [{"$set": end}])).matched_count > 0

    async def request_cancel(self, run: Document, *, by: str) -> bool:
        """Marks a running run; its worker reads the mark with the next heartbeat."""
        unasked = {"_id": run["_id"], "state": RunState.RUNNING.value, "cancel_requested": None}
        mark = {"cancel_requested": {"at": "$$NOW", "by": literal(by)}}
        return (await self._runs.update_one(unasked, [{"$set": mark}])).matched_count > 0

    async def make_due(self, run: Document) -> bool:
        """Makes a run ready that waits for its time: such a run is in no lane."""
        waiting = {"_id": run["_id"], "state": RunState.QUEUED.value, "hold": None, "lane": {"$exists": False}}
        # Due for the reconciler too, which sends the wake-up if this process dies first.
        now = {**READY, "wake_at": "$$NOW", "wakes": 0}
        return (await self._runs.update_one(waiting, [{"$set": now}])).matched_count > 0

    async def add_answer(
        self,
        run: Document,
        question: Mapping[str, Any],
        answer: Mapping[str, Any],
        *,
        remaining: Sequence[Mapping[str, Any]],
    ) -> bool:
        """Adds the answer. Queues the run if no question is `remaining`.

        Each owner has another token, so a token identifies its questions.
        """
        waiting = {
            "_id": run["_id"],
            "state": transition_filter(RunState.NEEDS_HUMAN, RunState.QUEUED),
            "lease.token": run["lease"]["token"],
            "cancel_requested": None,
            # While a run rests, its questions only become fewer.
            "questions": {"$size": len(remaining) + 1} if run.get("questions") else None,
        }
        if run.get("questions"):
            waiting["questions.number"] = question["number"]
        asked = {name: value for name, value in question.items() if name != "number"}
        kept = {"at": "$$NOW", "turn": "$turn", "number": question["number"], "question": literal(asked)}
        kept |= {name: literal(value) for name, value in answer.items()}
        answers = {"$concatArrays": [{"$ifNull": ["$answers", []]}, [kept]]}
        if remaining:
            change = {"answers": answers, "questions": literal(list(remaining)), "question": literal(remaining[0])}
        else:
            change = {"answers": answers, **_requeue_fields()}
        return (await self._runs.update_one(waiting, [{"$set": change}])).matched_count == 1


def _requeue_fields() -> Document:
    in_progress = {"$mergeObjects": ["$progress", {"ended": None}]}
    return {
        **READY,
        "state": RunState.QUEUED.value,
        "questions": "$$REMOVE",
        # Before the first turn there is no progress. A chat with `ended` set would not go on.
        "progress": {"$cond": [{"$eq": [{"$type": "$progress"}, "object"]}, in_progress, "$progress"]},
        **dict.fromkeys(("question", "outcome", "usage", "finished_at", "not_before")),
        "wake_at": "$$NOW",
        "wakes": 0,
    }
