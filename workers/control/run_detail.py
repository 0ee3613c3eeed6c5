"""The detail of a run: its document, turns, costs and linked replays."""

from typing import Any

from accounting.totals.usage_query import run_totals
from workers.control.change_result import RunNotFoundError
from workers.control.run_effects import read_effects
from workers.control.run_replay import find_replays
from workers.store.run import TERMINAL, RunState
from workers.store.run_document import Document, as_json
from workers.store.run_order import awaited_order_key
from workers.store.run_store import RunStore

MAX_TURN_BYTES = 8 * 1024 * 1024  # of turns for display: they must not fill the memory
_HIDDEN_FIELDS = frozenset({"_id", "token"})


async def read_run_detail(
    store: RunStore,
    run_id: str,
    *,
    app_id: str | None = None,
    max_turns: int | None = None,
    max_bytes: int = MAX_TURN_BYTES,
) -> dict[str, Any]:
    """Reads the run with at most `max_turns` of its first turns, or fewer if they have more than `max_bytes`."""
    run = await store.find(run_id, app_id=app_id)
    if run is None:
        raise RunNotFoundError(run_id)
    order_key = awaited_order_key(run)
    waits_for = {} if order_key is None else {"waits_for": await store.order.head_of(order_key)}
    if max_turns is None:
        turns = await store.committed_turns(run_id, up_to=run["turn"])
    else:
        turns = await store.first_turns(run_id, up_to=min(run["turn"], max_turns), max_bytes=max_bytes)
    usage = await run_totals(store.database, run_id, is_running=run["state"] == RunState.RUNNING.value)
    return {
        **as_json(run),
        **waits_for,
        "turns": [{name: value for name, value in turn.items() if name not in _HIDDEN_FIELDS} for turn in turns],
        "usage": usage.as_json(),
        **await _effects_fields(store, run),
        "replays": [replay["_id"] for replay in await find_replays(store, run)],
    }


async def _effects_fields(store: RunStore, run: Document) -> dict[str, Any]:
    """Returns the effects that a replay would repeat, if the run may be replayed."""
    if run["state"] not in TERMINAL | {RunState.PARKED}:
        return {}
    effects = await read_effects(store, run)
    if not effects:
        return {}
    return {"done": {**effects.as_json(), "sentences": [*effects.sentences()], "about_keys": effects.about_keys()}}
