"""Turns: the chat goes on until it has an outcome, and each turn is durable before the next one begins."""

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from workers.landmarks import passed
from workers.steps.context_log import ContextChangeLog
from workers.steps.execution import EndedEarlyError, RunExecution
from workers.steps.run_chat import key_facts_of
from workers.steps.turn_record import as_storable_turn, log_written, record_of_writes, turn_document
from workflows.chat import guards
from workflows.chat.checkpoint import Checkpoint
from workflows.chat.clock import OUT_OF_TIME
from workflows.chat.conversation import converse
from workflows.chat.transcript import Turn
from workflows.context.writes import writes_of_turn
from workflows.outcome import OutcomeKind

log = logging.getLogger(__name__)


@asynccontextmanager
async def chat_time(run: RunExecution) -> AsyncIterator[None]:
    """Ends the chat where the steps in the block use up its wall-clock time."""
    chat = run.open_chat
    try:
        async with chat.clock.limit() as limit:
            yield
    except TimeoutError:
        if not limit.expired():
            raise
        agent, turn = chat.next_agent or chat.package.orchestrator.initial_agent, run.document["turn"] + 1
        reason = f"{OUT_OF_TIME} before {agent} could take turn {turn}"
        raise EndedEarlyError(guards.reached(OutcomeKind.TIMEOUT, reason, agent=agent, turn=turn)) from None


async def take_turns(run: RunExecution) -> None:
    """Sets the outcome of the chat; each turn is committed together with the documents that it changed."""
    chat, services, facts = run.open_chat, run.services, key_facts_of(run.open_chat.package, run.claim)
    context_log = ContextChangeLog(run)

    async def commit(number: int, turn: Turn, checkpoint: Checkpoint) -> None:
        document, state = turn_document(turn, checkpoint)
        if chat.speaking is not None and chat.speaking.journal.durable:
            document |= as_storable_turn(chat.speaking.open_turn())  # until the run counts this turn
        writes = writes_of_turn(chat.package, turn.context_changes, checkpoint.context, facts, first=number == 1)
        document |= record_of_writes(writes)
        passed("turn taken")
        await services.repository.commit_turn(run.claim, number=number, turn=document, checkpoint=state, writes=writes)
        passed("turn committed")
        log_written(run.claim, writes)
        log.info("turn_committed", extra={**run.labels, "turn": number, "agent": turn.agent, "to": turn.handoff})
        context_log.log_changes(number, turn.context_changes)
        services.events.turn(run.document["workflow"], turn)

    def should_stop() -> bool:
        return services.shutdown.stopping() or services.lease.cancelled_by(run.claim) is not None

    run.outcome = await converse(chat, commit=commit, stopping=should_stop)
