"""Prompts on a terminal for a question and its answer."""

from collections.abc import Mapping, Sequence
from typing import Any

import click

from ops.cli.output import exit_with_error
from ops.cli.parameters import JsonArgumentError, parse_json_object
from ops.presenters.answer_inputs import parse_answer_value
from ops.presenters.printable_text import to_printable
from ops.presenters.question_lines import single_question_lines
from workers.control.open_questions import question_key, question_name

QuestionFields = Mapping[str, Any]


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
