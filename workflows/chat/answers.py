"""Answers: what a person says becomes a turn of `user`, by whose rules the chat goes on.

A turn like any other: with a number and a checkpoint of its own, so that whoever resumes after a crash finds either
the answer still waiting or a turn that says it. What is answered for tools needs no turn: see `people`.
"""

from collections.abc import Sequence

from workflows.chat.live import Conversation, LiveTurn
from workflows.chat.question import Question, digest, question_id
from workflows.chat.routing import Router, ending
from workflows.chat.speakers import Decision
from workflows.chat.state_changes import take_handoff
from workflows.chat.turn import Commit, keep, learn
from workflows.chat.turn_order import retake_handoffs, rule_of_user
from workflows.context.derived import snapshot
from workflows.outcome import Outcome, OutcomeKind
from workflows.package.models import USER


async def take_answer(chat: Conversation, router: Router, commit: Commit) -> None:
    """The turn of the person who has answered, if somebody has: derived from, routed on and made durable."""
    if chat.answer is None:
        return
    retake_handoffs(chat, router)
    text, before = chat.answer, snapshot(chat.context) if chat.unseen is None else chat.unseen
    live = LiveTurn(chat, USER, len(chat.turns) + 1)
    learn(live, text, (), duration_s=0.0)
    decision = _decide(chat, router)
    take_handoff(chat, USER, decision.handoff)
    await keep(live, text, (), before=before, decision=decision, duration_s=0.0, commit=commit)
    chat.answer = None


def _decide(chat: Conversation, router: Router) -> Decision:
    rule, asked = rule_of_user(chat, router), _who_asked(chat)
    if rule is None and asked is not None:
        return Decision(None, asked, asked)
    ended = ending(rule, chat.package, USER, chat.turns)
    target = None if rule is None else rule.target
    return Decision(ended, None if ended is not None else target, target)


def _who_asked(chat: Conversation) -> str | None:
    """The agent whose turn it would have been, when it handed over before it spoke; else the one that spoke last."""
    return chat.next_agent or next((turn.agent for turn in reversed(chat.turns) if turn.agent != USER), None)


def questions_of(chat: Conversation, outcome: Outcome) -> Sequence[Question]:
    """What a chat asks that has come to rest with this outcome."""
    if outcome.kind is not OutcomeKind.NEEDS_HUMAN:
        return ()
    if chat.questions:
        return chat.questions
    said = next((turn.text for turn in reversed(chat.turns) if turn.text.strip()), chat.opening)
    text, turn = chat.redactor.text(said), len(chat.turns)
    bound = question_id(chat.fixed.get("run_id", ""), turn, "message", digest(text))
    return (Question("message", agent=_who_asked(chat), turn=turn, text=text, id=bound),)
