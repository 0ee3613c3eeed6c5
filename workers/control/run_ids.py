"""Run ids: a run is named by its whole id, or by the end of it as tables show it."""

import re

from workers.control.change_result import RefusedError, RunNotFoundError
from workers.store.run_reads import RunReads
from workers.store.run_store import RunStore

MIN_LETTERS = 6
_ENDING = re.compile(rf"[0-9A-Z]{{{MIN_LETTERS},26}}")


async def resolve_run_id(store: RunStore, text: str, *, app_id: str | None = None) -> str:
    """Returns the id of the one run that is named.

    Raises RunNotFoundError if there is none, RefusedError if there are several.
    """
    if text.startswith("run_"):
        return text
    ending = text.removeprefix("…").upper()
    if _ENDING.fullmatch(ending) is None:
        raise RefusedError(f"{text[:60]!r} is no run id; give it whole, or at least its last {MIN_LETTERS} letters")
    found = await RunReads(store).find_by_ending(ending, app_id=app_id)
    if not found:
        raise RunNotFoundError(text)
    if len(found) > 1:
        raise RefusedError(f"several runs end in {ending}, such as {found[0]} and {found[1]}; give more of it")
    return found[0]
