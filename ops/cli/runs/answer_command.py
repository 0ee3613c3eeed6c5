"""`unattended runs answer`: answers a question of a run, from options or from prompts."""

import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from ops.cli.command import command
from ops.cli.completion import complete_with, find_runs
from ops.cli.database_session import open_wakeups, with_database
from ops.cli.output import exit_with_error, json_option, print_json
from ops.cli.parameters import JsonArgumentError, parse_json_object, parse_json_option
from ops.cli.runs.run_options import answerer_name, exit_on_refusal
from ops.presenters.answer_inputs import MAX_NUMBER_DIGITS, MAX_QUESTION_ID_LENGTH, parse_answer_value
from ops.presenters.printable_text import to_printable
from ops.presenters.question_lines import answer_result_text, single_question_lines, waiting_text
from workers.control.change_result import RefusedError, RunNotFoundError
from workers.control.open_questions import is_named, question_key, question_name, waiting_questions

if TYPE_CHECKING:
    from workers.control.run_answers import AnswerResult
    from workers.settings import Settings

QuestionFields = Mapping[str, Any]
Responses = dict[str, dict[str, Any]]
AnswerFields = dict[str, Any]


def _parse_question(_context: click.Context, _parameter: click.Parameter, text: str | None) -> int | str | None:
    if text is None or (0 < len(text) <= MAX_QUESTION_ID_LENGTH and text.startswith("q_")):
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
@click.argument("run_id", shell_complete=complete_with(find_runs("needs_human")))
@click.option(
    "--question",
    callback=_parse_question,
    metavar="N",
    help="Number of the question, as `runs show` prints it. Without it, a terminal asks.",
)
@click.option("-m", "--message", help="The answer to a question that asks for a message.")
@click.option(
    "--response",
    "texts",
    multiple=True,
    metavar="TOOL.KEY=VALUE",
    help="A value for a tool; may be repeated. VALUE is parsed as JSON, else taken as text.",
)
@click.option("--json-responses", metavar="JSON|@file", help='All values at once: {"tool": {"key": value}}.')
@click.option("--by", "name", help="Your name as free text. Your user name on this machine is recorded as well.")
@json_option
def answer(run_id: str, question: int | str | None, as_json: bool, message: str | None, **options: Any) -> None:
    """Answers a question of a run that waits for a person.

    The run continues from its checkpoint once each of its questions has an answer. A terminal prompts for what is left
    out: without an answer, it shows the questions and asks for each answer; without --question, it asks which question
    the answer is for.
    """
    responses = _parse_responses(options["json_responses"], options["texts"])
    fields: AnswerFields = {"message": message} if message is not None else {}
    fields |= {"responses": responses} if responses else {}
    with exit_on_refusal():
        for answer_fields in _collect_answers(run_id, question, fields):
            answered = _send(run_id, {"by": answerer_name(), "name": options["name"], **answer_fields})
            _print_answer(answered, as_json=as_json)


def _send(run_id: str, fields: AnswerFields) -> "AnswerResult":
    return with_database(lambda database, settings: _submit(database, settings, run_id, fields), redis=True)


def _print_answer(answered: "AnswerResult", *, as_json: bool) -> None:
    if as_json:
        result = {"run_id": answered.run_id, "answer": answered.number, "repeated": answered.repeated}
        print_json({**result, "waiting": list(answered.waiting)})
        return
    repeated = "  (it has this answer already; nothing was changed)" if answered.repeated else ""
    click.echo(f"{answered.run_id} {answer_result_text(answered.number, answered.waiting)}{repeated}")


def _collect_answers(run_id: str, question: int | str | None, fields: AnswerFields) -> Iterator[AnswerFields]:
    """Yield the answers to send, each with its question."""
    if question is not None and fields:
        yield {"question": question, **fields}
        return
    is_terminal = sys.stdin.isatty()
    if not fields and not is_terminal:
        raise click.UsageError(
            f"an answer is needed: --message, --response or --json-responses; `unattended runs show {run_id}`"
            " shows the questions"
        )
    waiting = _waiting_questions(run_id, question)
    if not is_terminal:
        raise click.UsageError(
            f"--question is needed: {waiting_text(_numbers(waiting))};"
            f" `unattended runs show {run_id}` shows the questions"
        )
    if fields:
        yield {"question": prompt_question(waiting, _answer_summary(fields)), **fields}
        return
    print_questions(waiting)
    for waiting_question in waiting:
        if len(waiting) > 1:
            click.echo(f"question {waiting_question['number']}:", err=True)
        yield {"question": question_name(waiting_question), **prompt_answer(waiting_question)}


def _waiting_questions(run_id: str, question: int | str | None) -> Sequence[Mapping[str, Any]]:
    """Return the questions that wait; with `question`, only that one."""
    run = with_database(lambda database, _: _find_waiting_run(database, run_id))
    waiting = waiting_questions(run)
    if question is None:
        return waiting
    matching = [candidate for candidate in waiting if is_named(candidate, question)]
    if not matching:
        raise RefusedError(f"{run['run_id']} asks no question {question} now: {waiting_text(_numbers(waiting))}")
    return matching


def _numbers(questions: Sequence[Mapping[str, Any]]) -> list[int]:
    return [question["number"] for question in questions]


def _answer_summary(fields: AnswerFields) -> str:
    return json.dumps(fields.get("message", fields.get("responses")), ensure_ascii=False)


def _parse_responses(json_text: str | None, texts: Iterable[str]) -> Responses:
    responses = {tool: dict(keys) for tool, keys in _parse_json_responses(json_text).items()}
    for text in texts:
        tool, key, value = _split_response(text)
        responses.setdefault(tool, {})[key] = value
    return responses


def _parse_json_responses(text: str | None) -> Responses:
    if text is None:
        return {}
    responses = parse_json_option(text, "--json-responses")
    for tool, keys in responses.items():
        if not isinstance(keys, dict):
            message = f'{tool}: write keys and values, such as {{"{tool}": {{"approved": true}}}}'
            raise click.BadParameter(message, param_hint="--json-responses")
    return responses


def _split_response(text: str) -> tuple[str, str, Any]:
    name, equals, value = text.partition("=")
    tool, dot, key = name.partition(".")
    if not (tool and dot and key and equals):
        message = f"{text!r} is not TOOL.KEY=VALUE, such as approve.verdict=yes"
        raise click.BadParameter(message, param_hint="--response")
    return tool, key, parse_answer_value(value)


def with_choice_as_text(waiting: Sequence[Mapping[str, Any]], fields: Mapping[str, Any]) -> AnswerFields:
    """Keep a choice as text also where it looks like JSON: `--response Card.choice=true` chooses "true"."""
    question = next((candidate for candidate in waiting if is_named(candidate, fields["question"])), {})
    key, choices = question_key(question), question.get("choices") or ()
    texts = {tool: json.dumps(keys.get(key)) for tool, keys in (fields.get("responses") or {}).items() if key in keys}
    chosen = {tool: {**fields["responses"][tool], key: text} for tool, text in texts.items() if text in choices}
    return {**fields, "responses": {**fields["responses"], **chosen}} if chosen else dict(fields)


async def _find_waiting_run(database: Any, run_ref: str) -> dict[str, Any]:
    from workers.control.run_answers import describe_state
    from workers.control.run_ids import resolve_run_id
    from workers.store.run_document import as_json
    from workers.store.run_store import RunStore

    store = RunStore(database)
    run_id = await resolve_run_id(store, run_ref)
    run = await store.find(run_id)
    if run is None:
        raise RunNotFoundError(run_id)
    if not waiting_questions(run):
        raise RefusedError(f"{run_id} {describe_state(run)}")
    return as_json(run)


async def _submit(database: Any, settings: "Settings", run_ref: str, fields: Mapping[str, Any]) -> "AnswerResult":
    from workers.control.run_answers import InvalidAnswerError, submit_answer
    from workers.control.run_ids import resolve_run_id
    from workers.store.run_store import RunStore

    store = RunStore(database, republish_after_s=settings.republish_after_s)
    run_id = await resolve_run_id(store, run_ref)
    waiting = waiting_questions(await store.find(run_id) or {"state": None})
    async with open_wakeups(settings) as wakeups:
        try:
            return await submit_answer(store, wakeups, run_id, **with_choice_as_text(waiting, fields))
        except InvalidAnswerError as error:
            raise click.UsageError(str(error)) from None


def print_questions(questions: Sequence[QuestionFields]) -> None:
    for question in questions:
        for line in single_question_lines(question):
            click.echo(line, err=True)


def prompt_question(questions: Sequence[QuestionFields], answer_text: str) -> int | str:
    """Ask which question an answer of the command line is for."""
    print_questions(questions)
    if len(questions) == 1:
        if not click.confirm(f"Answer question {questions[0]['number']} with {to_printable(answer_text)}?", err=True):
            exit_with_error("nothing was answered")
        return question_name(questions[0])
    names = {str(question["number"]): question_name(question) for question in questions}
    label = f"Which question has the answer {to_printable(answer_text)}?"
    return names[click.prompt(label, type=click.Choice(list(names)), err=True)]


def prompt_answer(question: QuestionFields) -> dict[str, Any]:
    """Ask for the `message` or the `responses` of one question."""
    if question["kind"] == "message":
        return {"message": click.prompt("Message", err=True)}
    tool, choices = str(question["tool"]), question.get("choices")
    awaited = list(question.get("keys") or ())
    if not (choices or awaited):
        label = f'{to_printable(tool)}, as JSON such as {{"approved": true}}'
        return {"responses": {tool: click.prompt(label, err=True, value_proc=_parse_object)}}
    keys: dict[str, Any] = {}
    if choices:
        first = question_key(question)
        keys[first] = _prompt_choice(tool, first, choices)
    for key in awaited:
        if key not in keys:
            keys[key] = parse_answer_value(click.prompt(to_printable(f"{tool}.{key}"), err=True))
    return {"responses": {tool: keys}}


def _prompt_choice(tool: str, key: str, choices: Sequence[str]) -> str:
    """Show choices without control characters, and return the original text."""
    choice_by_text = {to_printable(choice): choice for choice in choices}
    return choice_by_text[
        click.prompt(to_printable(f"{tool}.{key}"), type=click.Choice(list(choice_by_text)), err=True)
    ]


def _parse_object(text: str) -> dict[str, Any]:
    try:
        return parse_json_object(text)
    except JsonArgumentError as error:
        raise click.UsageError(str(error)) from None  # click prompts again
