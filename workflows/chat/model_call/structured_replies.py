"""Structured replies: answers checked against an output model, with one repair.

A model that is asked for JSON may wrap it in a code fence, or in a sentence before and after. If there is exactly one
fence or one object, that is taken as the answer. Anything else does not fit.
"""

import json
import logging
import re
from collections.abc import Iterator
from typing import Any

from workflows.chat.agents.output_models import ReplyMismatch, ReplyModel
from workflows.chat.chat_errors import ModelError
from workflows.chat.chat_state import LiveTurn
from workflows.chat.model_call.exchange import Exchange

log = logging.getLogger(__name__)

MAX_OBJECT_STARTS = 50  # braces that are tried as the start of an object

_FENCE = re.compile(r"[ \t]*```(?P<language>[\w+-]*)[ \t\r]*")
_DECODER = json.JSONDecoder()


async def validate_reply(exchange: Exchange, text: str) -> tuple[str, Any]:
    """Returns the text that fits the agent's model, and its value as plain JSON.

    The value is None for an agent without a model, and for one that handed over instead of answering."""
    live = exchange.live
    model = live.chat.built_package.output_models.get(live.agent)
    if model is None or _has_transferred(live):
        return text, None
    try:
        return parse_reply(model, text)
    except ReplyMismatch as unfit:
        problems = live.chat.redactor.redact_text(str(unfit))
    run_id = live.chat.fixed_values.get("run_id")
    log.info("reply_sent_back", extra={"run_id": run_id, "agent": live.agent, "turn": live.number, "model": model.name})
    value = "the JSON object" if model.is_object else "the JSON value"
    text = await exchange.ask(f"Your answer does not fit {model.name}: {problems}. Answer again with only {value}.")
    if _has_transferred(live):
        return text, None
    try:
        return parse_reply(model, text)
    except ReplyMismatch as unfit:
        problems = live.chat.redactor.redact_text(str(unfit))
        message = (
            f"the answer of {live.agent} does not fit its model {model.name}, also after a second attempt: {problems}"
        )
        raise ModelError(message, transient=False) from None


def _has_transferred(live: LiveTurn) -> bool:
    return live.transfer is not None


def parse_reply(model: ReplyModel, text: str) -> tuple[str, Any]:
    """Returns the JSON in this text and its value. ReplyMismatch when none fits."""
    try:
        return text, model.read(text)
    except ReplyMismatch as unfit:
        problem = unfit
    inside = _embedded_json(text)
    if inside is None:
        raise problem
    return inside, model.read(inside)


def _embedded_json(text: str) -> str | None:
    """Finds the only piece of JSON in a text; None for none or several."""
    if _is_json(text):
        return None
    fenced = list(_fenced_blocks(text))
    if len(fenced) == 1:
        return fenced[0].strip()
    objects = list(_json_objects(text))
    return objects[0] if len(objects) == 1 else None


def _fenced_blocks(text: str) -> Iterator[str]:
    """Yields fenced blocks by line; one regex would rescan at each unclosed fence."""
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


def _json_objects(text: str) -> Iterator[str]:
    """Yields the outermost objects. After too many braces the search stops."""
    place = text.find("{")
    for _ in range(MAX_OBJECT_STARTS):
        if place < 0:
            return
        try:
            end = _DECODER.raw_decode(text, place)[1]
        except (ValueError, RecursionError):  # ValueError: also numbers of 5,000 digits
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
