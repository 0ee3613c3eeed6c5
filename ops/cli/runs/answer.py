"""`unattended runs answer`: says what a person has to say to a question, and lets the run go on."""

import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from ops.cli.command import command
from ops.cli.completing import completed_by, runs
from ops.cli.json_argument import JsonArgumentError, json_object
from ops.cli.output import json_option, print_json
from ops.cli.runs.asking import refusals_in_one_line, who_answers
from ops.cli.runs.question_lines import numbers_text
from ops.cli.runs.question_prompts import prompt_answer, prompt_which, show_questions, value_of
from ops.cli.runs.waking import waking
from ops.cli.session import with_database
from workers.control.errors import RefusedError, RunNotFoundError
from workers.control.questions import is_meant, question_key, question_name, waiting_questions

if TYPE_CHECKING:
    from workers.control.answer import Answered
    from workers.settings import Settings

MAX_NUMBER_DIGITS = 9
MAX_ID = 200

Responses = dict[str, dict[str, Any]]
Said = dict[str, Any]


def _question(_context: click.Context, _parameter: click.Parameter, text: str | None) -> int | str | None:
    if text is None or (0 < len(text) <= MAX_ID and text.startswith("q_")):
        return text
    if text.isascii() and text.isdigit() and len(text) <= MAX_NUMBER_DIGITS:
        return int(text)
    raise click.BadParameter("write the number of a question, such as 1, or its id")


@command(
    "answer",
    examples=[
        "unattended runs answer 8C0A2F",
        "unattended runs answer 8C0A2F --question 1 --message 'Go ahead.'",
        "unattended runs answer 8C0A2F --question 2 --response approve.verdict=yes",
        'unattended runs answer 8C0A2F --question 2 --json-responses \'{"approve": {"verdict": "yes"}}\'',
    ],
    related=["runs list", "runs show"],
)
@click.argument("run_id", shell_complete=completed_by(runs("needs_human")))
@click.option(
    "--question",
    callback=_question,
    metavar="N",
    help="Which question is answered: its number, as `runs show` has it. Only a terminal is asked for it.",
)
@click.option("-m", "--message", help="What the user says.")
@click.option(
    "--response",
    "texts",
    multiple=True,
    metavar="TOOL.KEY=VALUE",
    help="What a tool gets; repeat it. VALUE is JSON where it is JSON, else text.",
)
@click.option("--json-responses", metavar="JSON|@file", help='All at once: {"tool": {"key": value}}.')
@click.option("--by", "name", help="Who answers, in your words. Your name on this machine is recorded beside it.")
@json_option
def answer(run_id: str, question: int | str | None, as_json: bool, message: str | None, **given: Any) -> None:
    """Answers a question of a run that waits for a person.

    The run goes on where it stands when each of its questions is answered. On a terminal, what is left out is asked
    for: without an answer the questions are shown and answered one by one, without --question it is asked which one
    is meant.
    """
    responses = _responses(given["json_responses"], given["texts"])
    said: Said = {"message": message} if message is not None else {}
    said |= {"responses": responses} if responses else {}
    with refusals_in_one_line():
        for each in _answers(run_id, question, said):
            answered = _send(run_id, {"by": who_answers(), "name": given["name"], **each})
            _print_answered(answered, as_json=as_json)


def _send(run_id: str, said: Said) -> "Answered":
    return with_database(lambda database, settings: _answer(database, settings, run_id, said), redis=True)


def _print_answered(answered: "Answered", *, as_json: bool) -> None:
    if as_json:
        told = {"run_id": answered.run_id, "answer": answered.number, "repeated": answered.repeated}
        print_json({**told, "waiting": list(answered.waiting)})
        return
    again = "  (it has this answer already; nothing was changed)" if answered.repeated else ""
    waits = f"; {numbers_text(answered.waiting)} for an answer" if answered.waiting else ", and goes on"
    click.echo(f"{answered.run_id} has answer {answered.number}{waits}{again}")


def _answers(run_id: str, question: int | str | None, said: Said) -> Iterator[Said]:
    """What is sent, one by one: each names its question."""
    if question is not None and said:
        yield {"question": question, **said}
        return
    is_terminal = sys.stdin.isatty()
    if not said and not is_terminal:
        raise click.UsageError(
            f"say what to answer with --message, --response or --json-responses; `unattended runs show {run_id}`"
            " shows what is asked"
        )
    waiting = _waiting_now(run_id, question)
    if not is_terminal:
        raise click.UsageError(
            f"say which question is answered with --question: {numbers_text(_numbers(waiting))};"
            f" `unattended runs show {run_id}` shows what is asked"
        )
    if said:
        yield {"question": prompt_which(waiting, _in_short(said)), **said}
        return
    show_questions(waiting)
    for each in waiting:
        if len(waiting) > 1:
            click.echo(f"question {each['number']}:", err=True)
        yield {"question": question_name(each), **prompt_answer(each)}


def _waiting_now(run_id: str, question: int | str | None) -> Sequence[Mapping[str, Any]]:
    """The questions that wait, or the one of them that is named."""
    run = with_database(lambda database, _: _waiting(database, run_id))
    waiting = waiting_questions(run)
    if question is None:
        return waiting
    found = [each for each in waiting if is_meant(each, question)]
    if not found:
        raise RefusedError(f"{run['run_id']} asks no question {question} now: {numbers_text(_numbers(waiting))}")
    return found


def _numbers(questions: Sequence[Mapping[str, Any]]) -> list[int]:
    return [question["number"] for question in questions]


def _in_short(said: Said) -> str:
    return json.dumps(said.get("message", said.get("responses")), ensure_ascii=False)


def _responses(json_text: str | None, texts: Iterable[str]) -> Responses:
    responses = {tool: dict(keys) for tool, keys in _from_json(json_text).items()}
    for text in texts:
        tool, key, value = _parts(text)
        responses.setdefault(tool, {})[key] = value
    return responses


def _from_json(text: str | None) -> Responses:
    if text is None:
        return {}
    try:
        given = json_object(text)
    except JsonArgumentError as error:
        raise click.BadParameter(str(error), param_hint="--json-responses") from None
    for tool, keys in given.items():
        if not isinstance(keys, dict):
            message = f'{tool}: write keys and values, such as {{"{tool}": {{"approved": true}}}}'
            raise click.BadParameter(message, param_hint="--json-responses")
    return given


def _parts(text: str) -> tuple[str, str, Any]:
    name, equals, value = text.partition("=")
    tool, dot, key = name.partition(".")
    if not (tool and dot and key and equals):
        message = f"{text!r} is not TOOL.KEY=VALUE, such as approve.verdict=yes"
        raise click.BadParameter(message, param_hint="--response")
    return tool, key, value_of(value)


def with_choice_as_text(waiting: Sequence[Mapping[str, Any]], said: Mapping[str, Any]) -> Said:
    """A choice is a text also where it looks like JSON: `--response Card.choice=true` chooses "true"."""
    question = next((each for each in waiting if is_meant(each, said["question"])), {})
    key, choices = question_key(question), question.get("choices") or ()
    texts = {tool: json.dumps(keys.get(key)) for tool, keys in (said.get("responses") or {}).items() if key in keys}
    chosen = {tool: {**said["responses"][tool], key: text} for tool, text in texts.items() if text in choices}
    return {**said, "responses": {**said["responses"], **chosen}} if chosen else dict(said)


async def _waiting(database: Any, text: str) -> dict[str, Any]:
    from workers.control.answer import instead
    from workers.control.naming import whole_run_id
    from workers.store.run_document import as_json
    from workers.store.run_store import RunStore

    store = RunStore(database)
    run_id = await whole_run_id(store, text)
    run = await store.find(run_id)
    if run is None:
        raise RunNotFoundError(run_id)
    if not waiting_questions(run):
        raise RefusedError(f"{run_id} {instead(run)}")
    return as_json(run)


async def _answer(database: Any, settings: "Settings", text: str, said: Mapping[str, Any]) -> "Answered":
    from workers.control.answer import UnfitAnswerError
    from workers.control.answer import answer as give_answer
    from workers.control.naming import whole_run_id
    from workers.store.run_store import RunStore

    store = RunStore(database, republish_after_s=settings.republish_after_s)
    run_id = await whole_run_id(store, text)
    asked = waiting_questions(await store.find(run_id) or {"state": None})
    async with waking(settings) as wake:
        try:
            return await give_answer(store, wake, run_id, **with_choice_as_text(asked, said))
        except UnfitAnswerError as error:
            raise click.UsageError(str(error)) from None
