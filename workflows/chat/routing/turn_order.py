"""Turn order: where a chat begins or resumes, and how `pre` rules pass a turn on.

Nothing is committed between two turns. So the hand-offs taken here are taken again when the chat is resumed, on the
context of the last committed turn; their changes are committed with the next turn, or with the chat's end. An open turn
records the hand-offs that led to it, since the rules may hold differently by now.
"""

from workflows.chat.chat_state import Conversation
from workflows.chat.limits import guards
from workflows.chat.questions.open_turns import resumed_speaker
from workflows.chat.routing.router import Router, end_outcome
from workflows.chat.routing.state_changes import apply_handoff_between_turns
from workflows.outcome import Outcome, OutcomeKind
from workflows.package.normal_form.package_model import USER, Rule


def first_or_next_agent(chat: Conversation, router: Router) -> tuple[Outcome | None, str]:
    """Returns the next agent: at the start the initial one or a `user` rule's target.

    Returns the outcome instead if the last turn was the end and its worker was lost before writing it."""
    first = chat.package.orchestrator.initial_agent
    if chat.final_outcome is not None:
        return chat.final_outcome, first
    if not chat.turns and chat.next_agent is None and first == USER:
        rule = user_rule(chat, router)
        if rule is not None and chat.open_turn is None:
            apply_handoff_between_turns(chat, USER, rule.target)
        return end_outcome(rule, chat.package, USER), rule.target if rule is not None else USER
    return None, chat.next_agent or first


def skip_to_speaker(router: Router, agent: str, chat: Conversation) -> str | Outcome:
    """Follows pre-scope rules, which hand over before an agent speaks."""
    seen = {agent}
    while (rule := router.rule_before(agent, chat.context)) is not None:
        if rule.target == agent or (rule.target == USER and user_spoke_last(chat)):
            return agent  # the agent keeps the turn, also if it hands over to the user and already has the answer
        apply_handoff_between_turns(chat, agent, rule.target)
        end = end_outcome(rule, chat.package, agent)
        if end is not None:
            return end
        agent = rule.target
        if agent in seen:
            number = len(chat.turns) + 1
            reason = f"rules of scope pre hand over in a circle at {agent}, so no agent takes turn {number}"
            return guards.limit_outcome(OutcomeKind.LOOP_DETECTED, reason, agent=agent, turn=number)
        seen.add(agent)
    return agent


def resume_open_turn(chat: Conversation) -> str | None:
    """Returns the agent of the open turn, after the hand-offs that led to it.

    PackageDefect as in `resumed_speaker`."""
    speaker, turn = resumed_speaker(chat), chat.open_turn
    for source, target in turn.handoffs if speaker is not None and turn is not None else ():
        apply_handoff_between_turns(chat, source, target)
    return speaker


def reapply_handoffs(chat: Conversation, router: Router) -> None:
    """Repeats the hand-offs that led to a person.

    The context was stored as the last turn left it."""
    end, agent = first_or_next_agent(chat, router)
    if end is None:
        skip_to_speaker(router, agent, chat)


def user_rule(chat: Conversation, router: Router) -> Rule | None:
    return router.rule_before(USER, chat.context) or router.rule_after(USER, chat.context)


def user_spoke_last(chat: Conversation) -> bool:
    return bool(chat.turns) and chat.turns[-1].agent == USER
