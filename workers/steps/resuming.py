"""Resuming: what a run is given before it takes turns: package, context and transcript, as they were left."""

import logging
from collections.abc import Mapping
from functools import partial
from typing import Any

from workers.process.worker import WorkerProcess
from workers.steps.run_chat import key_facts_of, run_facts
from workers.store.run import Claim, labels
from workflows.chat.agents.built_packages import BuiltPackage
from workflows.chat.chat_state import Conversation
from workflows.chat.history.journal import OpenTurn
from workflows.chat.history.transcript import Turn
from workflows.context.context_loader import load_context, purge_suppressed
from workflows.context.reads.computed_values import recompute_variables
from workflows.context.reads.source_reads import ContextReaders, reread_values
from workflows.context.redaction import Redactor, remove_hidden
from workflows.context.values.log_previews import preview_values

log = logging.getLogger(__name__)

FIRST_TOKEN = 1


async def load_package(claim: Claim, worker: WorkerProcess) -> BuiltPackage:
    """A run keeps the version it was first claimed with, as long as this process can still give it."""
    workflow, pinned = claim.document["workflow"], claim.document["package_version"]
    built = await worker.built(workflow, version=pinned)
    version = built.package.version
    if version != pinned:
        if pinned is not None:
            log.warning("pinned_version_gone", extra={**labels(claim.document), "pinned": pinned, "used": version})
        await worker.ownership.pin_package(claim, version)
    return built


async def load_run_context(chat: Conversation, claim: Claim, worker: WorkerProcess) -> None:
    """A resumed run keeps the context of its checkpoint: what a finished turn saw must not change under it."""
    facts, package = run_facts(claim.document), chat.package
    if claim.document["turn"] == 0:
        loaded = await load_context(package, facts, claim.document["input"], worker.context_sources)
        values = loaded.variables
        shown = {"values": preview_values(values)} if worker.settings.verbose_debug else {}
        log.info("context_loaded", extra={**labels(claim.document), "names": sorted(values), **shown})
    else:
        # The facts again: a version before this one may have known fewer of them.
        kept = {**claim.document["context"], **facts.base_values()}
        values = purge_suppressed(kept, chat.suppressed_names, run_id=claim.run_id)
        recompute_variables(package, values, chat.suppressed_names)  # of what may just have been purged
    remove_hidden(values, chat.suppressed_names, worker.redactor, fixed=facts.base_values())
    chat.context = values
    sources = worker.context_sources
    if sources.include_schema:
        readers = ContextReaders(
            facts.app_id, key_facts_of(package, claim), sources.read_document, sources.read_external
        )
        chat.refresh_variables = partial(reread_values, readers, run_id=claim.run_id)


async def resume_transcript(chat: Conversation, claim: Claim, worker: WorkerProcess) -> None:
    """The turns that count, and what the run has used up: also in attempts that kept nothing else."""
    number = claim.document["turn"]
    turns = await worker.store.committed_turns(claim.run_id, up_to=number) if number else ()
    chat.turns = [Turn.from_document(without_hidden(turn, worker.redactor)) for turn in turns]
    if claim.token == FIRST_TOKEN:
        return  # nobody had this run before: there is nothing to look for
    kept = await worker.store.open_turn(claim.run_id, number=number + 1)
    chat.open_turn = None if kept is None else OpenTurn.from_document(kept)
    earlier = await worker.ledger.read_earlier_calls(claim.run_id)
    counters = chat.counters
    counters.model_calls, counters.failed = earlier.count, dict(earlier.failed_by_agent)
    counters.tokens, counters.cost_nano_usd = earlier.tokens, earlier.cost_nano_usd


def without_hidden(turn: Mapping[str, Any], redactor: Redactor) -> Mapping[str, Any]:
    """What another worker kept, in another environment, or before a package said what is hidden."""
    return {**turn, **{name: redactor.redact_data(turn[name]) for name in ("text", "events", "context_changes")}}
