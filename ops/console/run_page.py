"""The page of one run: outcome, details, timeline with turns and costs, answers and data."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from pymongo import ASCENDING
from starlette.requests import Request
from starlette.responses import Response

from accounting.ledger.ledger_rows import COLLECTION
from ops.console import query_params
from ops.console.allowed_run_actions import allowed_run_actions
from ops.console.console_context import ConsoleContext
from ops.console.question_forms import question_views
from ops.console.run_timeline import owner_views
from ops.console.visitor import Visitor
from ops.presenters.run_lines import run_facts, state_facts
from workers.control.run_detail import read_run_detail
from workers.store.run import RunState

MAX_CALLS = 2_000
MAX_ITEMS_SHOWN = 40
_CALL_FIELDS = ("agent", "model", "at", "ok", "input_tokens", "output_tokens", "cost_nano_usd")

Story = Mapping[str, Any]


async def show_run(context: ConsoleContext, request: Request, visitor: Visitor) -> Response:
    store = context.role.store
    story = await read_run_detail(
        store,
        request.path_params["run_id"],
        app_id=visitor.scope,
        max_turns=context.options.max_turns,
        max_bytes=context.options.max_turn_bytes,
    )
    calls = store.database[COLLECTION].find({"run_id": story["run_id"]}, dict.fromkeys(_CALL_FIELDS, 1))
    rows = await calls.sort([("at", ASCENDING), ("_id", ASCENDING)]).limit(MAX_CALLS).to_list(None)
    owners = [*owner_views(story, rows, now=datetime.now(UTC))]
    return context.renderer.render(
        "run",
        visitor,
        title=f"Run …{story['run_id'][-6:]}",
        section="runs",
        run=story,
        facts=[*run_facts(story), *state_facts(story)],
        links=_links(story),
        owners=owners,
        hidden_turns=story["turn"] - len(story["turns"]),
        actions=allowed_run_actions(story, visitor),
        questions=question_views(story),
        path=query_params.run_path(story["run_id"]),
        is_going_on=story["state"] in {RunState.QUEUED, RunState.RUNNING},
        max_items=MAX_ITEMS_SHOWN,
    )


def _links(story: Story) -> Sequence[tuple[str, Sequence[tuple[str, str | None]]]]:
    """Return related runs, triggers and users: a label, and names with or without a path."""
    runs: Mapping[str, Sequence[str]] = {
        "parent": [story["parent_run_id"]] if story.get("parent_run_id") else [],
        "replay of": [story["replay_of"]] if story.get("replay_of") else [],
        "idempotency keys of": [story["keys_of"]] if story.get("keys_of") else [],
        "replayed as": story["replays"],
    }
    links: list[tuple[str, Sequence[tuple[str, str | None]]]] = [
        (label, [(run_id, query_params.run_path(run_id)) for run_id in ids]) for label, ids in runs.items() if ids
    ]
    if chain := story.get("chain"):
        links.append(("chain", [(trigger_id, query_params.trigger_path(trigger_id)) for trigger_id in chain]))
    if story.get("user_id"):
        links.append(("user", [(story["user_id"], None)]))
    return links
