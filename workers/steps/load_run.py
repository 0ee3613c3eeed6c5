"""Resume: loads package, context and transcript as the last owner of the run left them."""

import logging
from collections.abc import Mapping
from functools import partial
from typing import Any

from workers.steps.context_log import log_loaded_context
from workers.steps.run_chat import key_facts_of, new_chat, run_facts
from workers.steps.run_execution import RunExecution
from workflows.chat.history.transcript import Turn
from workflows.chat.history.turn_journal import OpenTurn
from workflows.context.context_loader import purge_suppressed
from workflows.context.reads.computed_values import recompute_variables
from workflows.context.reads.source_reads import ContextReaders, reread_values
from workflows.context.redaction import Redactor, remove_hidden

log = logging.getLogger(__name__)

FIRST_TOKEN = 1


async def load_package(run: RunExecution) -> None:
    """Opens the chat with the package version that the run was first claimed with.

    Uses the present version if this process can no longer build the old one.
    """
    workflow, pinned = run.document["workflow"], run.document["package_version"]
    built = await run.services.get_package(workflow, version=pinned)
    version = built.package.version
    if version != pinned:
        if pinned is not None:
            log.warning("pinned_version_gone", extra={**run.labels, "pinned": pinned, "used": version})
        await run.services.repository.pin_package(run.claim, version)
    run.chat = new_chat(run.claim, built, run.services)


async def load_run_context(run: RunExecution) -> None:
    """Loads the context. A resumed run keeps the context of its checkpoint.

    Values that a finished turn has read must not change afterwards.
    """
    chat, document, services = run.open_chat, run.document, run.services
    facts, package, sources = run_facts(document), chat.package, services.context_sources
    if document["turn"] == 0:
        loaded = await services.load_context(package, facts, document["input"], sources)
        values = loaded.variables
        log_loaded_context(run, values)
    else:
        # Facts are set again, since an older version may have known fewer of them.
        kept = {**document["context"], **facts.base_values()}
        values = purge_suppressed(kept, chat.suppressed_names, run_id=run.claim.run_id)
        recompute_variables(package, values, chat.suppressed_names)  # of variables that may just have been purged
    remove_hidden(values, chat.suppressed_names, services.redactor, fixed=facts.base_values())
    chat.context = values
    if sources.include_schema and services.refresh_context:
        keys = key_facts_of(package, run.claim)
        readers = ContextReaders(
            facts.app_id, keys, sources.read_document, sources.read_external, sources.read_timeouts
        )
        chat.refresh_variables = partial(reread_values, readers, run_id=run.claim.run_id)


async def resume_transcript(run: RunExecution) -> None:
    """Loads the counted turns, and the usage of all attempts of the run."""
    chat, repository, run_id, number = run.open_chat, run.services.repository, run.claim.run_id, run.document["turn"]
    turns = await repository.committed_turns(run_id, up_to=number) if number else ()
    chat.turns = [Turn.from_document(redact_turn(turn, run.services.redactor)) for turn in turns]
    if run.claim.token == FIRST_TOKEN:
        return  # the first owner of the run: there are no turns to load
    kept = await repository.open_turn(run_id, number=number + 1)
    chat.open_turn = None if kept is None else OpenTurn.from_document(kept)
    earlier = await run.services.ledger.read_earlier_calls(run_id)
    counters = chat.counters
    counters.model_calls, counters.failed = earlier.count, dict(earlier.failed_by_agent)
    counters.tokens, counters.cost_nano_usd = earlier.tokens, earlier.cost_nano_usd


def redact_turn(turn: Mapping[str, Any], redactor: Redactor) -> Mapping[str, Any]:
    """Redacts a stored turn.

    It may have been written in another environment, or before its package declared hidden variables.
    """
    return {**turn, **{name: redactor.redact_data(turn[name]) for name in ("text", "events", "context_changes")}}
