"""Structured replies: what an agent with a registered output model says, checked, with one attempt at repair.

A model that is asked for JSON may wrap it: in a code fence, or in a sentence before and after. Where there is one
fence or one object, that is what it meant. Anything else does not fit.
"""

import json
import logging
import re
from collections.abc import Iterator
from typing import Any

from workflows.chat.asking import Exchange
from workflows.chat.errors import ModelError
from workflows.chat.live import LiveTurn
from workflows.chat.output_models import AnswerModel, Unfit

log = logging.getLogger(__name__)

MOST_TRIED = 50  # braces where an object could begin

_FENCE = re.compile(r"[ \t]*```(?P<language>[\w+-]*)[ \t\r]*")
_DECODER = json.JSONDecoder()


async def fitting_reply(exchange: Exchange, text: str) -> tuple[str, Any]:
    """The text that fits the agent's model and what it says as plain JSON; None for an agent without a model, and
    for one that handed over instead of answering."""
    live = exchange.live
    model = live.chat.built.outputs.get(live.agent)
    if model is None or _handed_over(live):
        return text, None
    try:
        return read_answer(model, text)
    except Unfit as unfit:
        problems = live.chat.redactor.text(str(unfit))
    run_id = live.chat.fixed.get("run_id")
    log.info("reply_sent_back", extra={"run_id": run_id, "agent": live.agent, "turn": live.number, "model": model.name})
    value = "the JSON object" if model.is_object else "the JSON value"
    text = await exchange.say(f"Your answer does not fit {model.name}: {problems}. Answer again with only {value}.")
    if _handed_over(live):
        return text, None
    try:
        return read_answer(model, text)
    except Unfit as unfit:
        problems = live.chat.redactor.text(str(unfit))
        message = f"{live.agent} does not answer with its model {model.name}, nor when asked again: {problems}"
        raise ModelError(message, transient=False) from None


def _handed_over(live: LiveTurn) -> bool:
    return live.transfer is not None


def read_answer(model: AnswerModel, text: str) -> tuple[str, Any]:
    """The JSON in this text and what it says. Unfit when there is none that fits."""
    try:
        return text, model.read(text)
    except Unfit as unfit:
        problem = unfit
    inside = _inside(text)
    if inside is None:
        raise problem
    return inside, model.read(inside)


def _inside(text: str) -> str | None:
    """The one piece of JSON that stands in other text, if there is one and no more."""
    if _is_json(text):
        return None
    fenced = list(_fenced(text))
    if len(fenced) == 1:
        return fenced[0].strip()
    objects = list(_objects(text))
    return objects[0] if len(objects) == 1 else None


def _fenced(text: str) -> Iterator[str]:
    """Line by line: one pattern over the whole text would begin anew at each fence that nobody closes."""
    lines = text.split("\n")
    opened: int | None = None
    for place, line in enumerate(lines):
        fence = _FENCE.fullmatch(line)
        if fence is None:
            continue
        if opened is None:
            opened = place
        elif not fence["language"]:
            yield "\n".join(lines[opened + 1 : place])
            opened = None


def _objects(text: str) -> Iterator[str]:
    """The outermost objects in it. A text with too many braces says nothing clearly."""
    place = text.find("{")
    for _ in range(MOST_TRIED):
        if place < 0:
            return
        try:
            end = _DECODER.raw_decode(text, place)[1]
        except (ValueError, RecursionError):  # ValueError: also numbers of 5 000 digits
            end = place + 1
        else:
            yield text[place:end]
        place = text.find("{", end)


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True
