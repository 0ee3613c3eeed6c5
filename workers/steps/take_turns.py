"""Turns: the chat takes turns until it has an outcome. Each turn is durable before the next one begins."""

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from workers.crash_points import crash_point
from workers.steps.context_log import ContextChangeLog
from workers.steps.run_chat import key_facts_of
from workers.steps.run_execution import EndedEarlyError, RunExecution
from workers.steps.turn_record import as_storable_turn, log_written, record_of_writes, turn_document
from workflows.chat.chat_loop import run_conversation
from workflows.chat.history.checkpoint import Checkpoint
from workflows.chat.history.transcript import Turn
from workflows.chat.limits import guards
from workflows.chat.limits.run_clock import TIMEOUT_REASON
from workflows.context.documents.document_writes import turn_writes
from workflows.outcome import OutcomeKind

log = logging.getLogger(__name__)


@asynccontextmanager
async def chat_time(run: RunExecution) -> AsyncIterator[None]:
    """Ends the chat if the steps in the block use up its wall-clock time."""
    chat = run.open_chat
    try:
        async with chat.clock.timeout() as limit:
            yield
    except TimeoutError:
        if not limit.expired():
            raise
        agent, turn = chat.next_agent or chat.package.orchestrator.initial_agent, run.document["turn"] + 1
        reason = f"{TIMEOUT_REASON} before {agent} could take turn {turn}"
        raise EndedEarlyError(guards.limit_outcome(OutcomeKind.TIMEOUT, reason, agent=agent, turn=turn)) from None


async def take_turns(run: RunExecution) -> None:
    """Sets the outcome of the chat.

    Each turn is committed together with the documents that it changed.
    """
    chat, services, facts = run.open_chat, run.services, key_facts_of(run.open_chat.package, run.claim)
    context_log = ContextChangeLog(run)

    async def commit(number: int, turn: Turn, checkpoint: Checkpoint) -> None:
        document, state = turn_document(turn, checkpoint)
        if chat.current_turn is not None and chat.current_turn.journal.is_durable:
            document |= as_storable_turn(chat.current_turn.as_open_turn())  # until this turn is committed
        writes = turn_writes(chat.package, turn.context_changes, checkpoint.context, facts, is_first_turn=number == 1)
        document |= record_of_writes(writes)
        crash_point("turn taken")
        await services.repository.commit_turn(run.claim, number=number, turn=document, checkpoint=state, writes=writes)
        crash_point("turn committed")
        log_written(run.claim, writes)
        log.info("turn_committed", extra={**run.labels, "turn": number, "agent": turn.agent, "to": turn.handoff})
        context_log.log_changes(number, turn.context_changes)
        services.events.record_turn(run.document["workflow"], turn)

    def should_stop() -> bool:
        return services.shutdown.is_stopping() or services.lease.cancelled_by(run.claim) is not None

    run.outcome = await run_conversation(chat, save_turn=commit, should_stop=should_stop)
