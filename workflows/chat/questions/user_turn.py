"""Answers to messages: a person's message becomes a turn of `user`.

It has a number and a checkpoint of its own, so a worker that resumes after a crash finds either the waiting answer or a
turn that contains it. Answers to tools need no turn: see `call_questions`.
"""

from collections.abc import Sequence

from workflows.chat.chat_state import Conversation, LiveTurn
from workflows.chat.questions.question import Question, digest, make_question_id
from workflows.chat.routing.next_speaker import SpeakerDecision
from workflows.chat.routing.router import Router, end_outcome
from workflows.chat.routing.state_changes import apply_handoff
from workflows.chat.routing.turn_order import reapply_handoffs, user_rule
from workflows.chat.turn import SaveTurn, commit, derive_state
from workflows.context.state.state_derivation import take_snapshot
from workflows.outcome import Outcome, OutcomeKind
from workflows.package.normal_form.package_model import USER


async def commit_user_turn(chat: Conversation, router: Router, save_turn: SaveTurn) -> None:
    """Takes the turn of `user`, if there is a message: derives, routes and commits."""
    if chat.user_message is None:
        return
    reapply_handoffs(chat, router)
    text, before = (
        chat.user_message,
        take_snapshot(chat.context) if chat.committed_snapshot is None else chat.committed_snapshot,
    )
    live = LiveTurn(chat, USER, len(chat.turns) + 1)
    derive_state(live, text, (), duration_s=0.0)
    decision = _decide_after_user(chat, router)
    apply_handoff(chat, USER, decision.handoff)
    await commit(live, text, (), snapshot_before=before, decision=decision, duration_s=0.0, save_turn=save_turn)
    chat.user_message = None


def _decide_after_user(chat: Conversation, router: Router) -> SpeakerDecision:
    rule, asking_agent = user_rule(chat, router), _asking_agent(chat)
    if rule is None and asking_agent is not None:
        return SpeakerDecision(None, asking_agent, asking_agent)
    ended = end_outcome(rule, chat.package, USER, chat.turns)
    target = None if rule is None else rule.target
    return SpeakerDecision(ended, None if ended is not None else target, target)


def _asking_agent(chat: Conversation) -> str | None:
    """Returns the agent that handed over before it spoke, else the last speaker."""
    return chat.next_agent or next((turn.agent for turn in reversed(chat.turns) if turn.agent != USER), None)


def open_questions(chat: Conversation, outcome: Outcome) -> Sequence[Question]:
    """Returns the questions of a chat that rests with this outcome."""
    if outcome.kind is not OutcomeKind.NEEDS_HUMAN:
        return ()
    if chat.questions:
        return chat.questions
    last_text = next((turn.text for turn in reversed(chat.turns) if turn.text.strip()), chat.opening_message)
    text, turn = chat.redactor.redact_text(last_text), len(chat.turns)
    bound = make_question_id(chat.fixed_values.get("run_id", ""), turn, "message", digest(text))
    return (Question("message", agent=_asking_agent(chat), turn=turn, text=text, id=bound),)
