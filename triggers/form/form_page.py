"""Form pages: the form itself, the confirmation, and the problems."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.responses import HTMLResponse, Response

from triggers.form.form_controls import FormField, humanize_name
from triggers.gateway.http_problems import PausedError, ProblemError
from triggers.gateway.page_headers import page_headers
from workflows.package.trigger_specs.form_spec import DELIVERY_FIELD, FormSpec

TEMPLATES = Path(__file__).resolve().parent / "templates"

_CLOSED = "This form is closed at the moment"
_TRANSIENT_STATUSES = frozenset({429, 503})
_DETAILED_STATUSES = frozenset({400, 413, 415})
_PROBLEM_TEXTS = {
    404: ("There is no such page", "Check the address, or ask whoever gave it to you."),
    503: (
        "We cannot answer just now",
        "Please reload this page in a moment. If you sent the form just now, nothing was taken, and reloading sends "
        "what you wrote again.",
    ),
}
_DEFAULT_PROBLEM_TEXT = ("The form could not be sent", "Nothing was taken. Go back, and try again.")


@dataclass(frozen=True, slots=True)
class SubmittedForm:
    """A form as it was sent."""

    delivery: str
    values: Mapping[str, Any] = field(repr=False)
    errors: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _ErrorLine:
    """One line of the summary.

    It links to its field, unless the form has no such field.
    """

    text: str
    field_id: str | None = None


@dataclass(frozen=True, slots=True)
class _Summary:
    heading: str
    paragraphs: Sequence[str] = ()
    errors: Sequence[_ErrorLine] = ()


def empty_page(spec: FormSpec, *, delivery: str) -> Response:
    defaults = {name: field_spec.default for name, field_spec in spec.inputs.items()}
    return _form_page(spec, SubmittedForm(delivery, defaults))


def refused_page(spec: FormSpec, submission: SubmittedForm) -> Response:
    """Shows the form as it was sent, with each error beside its field."""
    errors = _error_lines(_form_fields(spec, submission), submission.errors)
    summary = _Summary("There is a problem", errors=errors)
    return _form_page(spec, submission, summary, status=422, title_prefix="Error")


def unsent_page(spec: FormSpec, submission: SubmittedForm, problem: ProblemError) -> Response:
    """Shows the form as it was sent, to be sent again: nothing was accepted."""
    heading, advice = _unsent_text(problem)
    paragraphs = [f"Nothing was taken, but what you wrote is still below. {advice}"]
    if problem.status in _DETAILED_STATUSES:
        paragraphs.append(_problem_text(problem))
    summary = _Summary(heading, paragraphs)
    return _form_page(
        spec, submission, summary, status=problem.status, title_prefix="Not sent", headers=problem.headers
    )


def accepted_page(spec: FormSpec, *, run_id: str, form_path: str) -> Response:
    return _render("accepted", title=f"Thank you – {_title(spec)}", run_id=run_id, form_path=form_path)


def closed_page(problem: ProblemError) -> Response:
    return _render(
        "problem",
        status=problem.status,
        headers=problem.headers,
        title="Closed at the moment",
        heading=_CLOSED,
        advice="It takes no answers now. Please try again later.",
        detail=None,
    )


def problem_page(problem: ProblemError) -> Response:
    heading, advice = _PROBLEM_TEXTS.get(problem.status, _DEFAULT_PROBLEM_TEXT)
    return _render(
        "problem",
        status=problem.status,
        headers=problem.headers,
        title=heading,
        heading=heading,
        advice=advice,
        detail=_problem_text(problem) if problem.status in _DETAILED_STATUSES else None,
    )


@cache
def form_style() -> str:
    return (TEMPLATES / "form.css").read_text(encoding="utf-8")


@cache
def form_headers() -> Mapping[str, str]:
    return {**page_headers(form_style(), form_action="'self'"), "cache-control": "no-store"}


def _unsent_text(problem: ProblemError) -> tuple[str, str]:
    if isinstance(problem, PausedError):
        return _CLOSED, "Please send it again later."
    if problem.status in _TRANSIENT_STATUSES:
        return "We could not take your answers just now", "Please send it again in a moment."
    return "We could not take your answers", "Please change it and send it again, or ask whoever gave you this address."


def _problem_text(problem: ProblemError) -> str:
    return f"What is wrong: {problem.detail}."


def _form_page(
    spec: FormSpec,
    submission: SubmittedForm,
    summary: _Summary | None = None,
    *,
    status: int = 200,
    title_prefix: str = "",
    headers: Mapping[str, str] | None = None,
) -> Response:
    heading = _title(spec)
    return _render(
        "form",
        status=status,
        headers=headers,
        title=f"{title_prefix}: {heading}" if title_prefix else heading,
        heading=heading,
        description=spec.description,
        summary=summary,
        fields=_form_fields(spec, submission),
        delivery_field=DELIVERY_FIELD,
        delivery=submission.delivery,
    )


def _title(spec: FormSpec) -> str:
    return spec.title.strip() or humanize_name(spec.name)


def _form_fields(spec: FormSpec, submission: SubmittedForm) -> Sequence[FormField]:
    return [
        FormField(f"field-{number}", name, field_spec, submission.values.get(name), submission.errors.get(name))
        for number, (name, field_spec) in enumerate(spec.inputs.items(), start=1)
    ]


def _error_lines(fields: Sequence[FormField], errors: Mapping[str, str]) -> Sequence[_ErrorLine]:
    linked = [
        _ErrorLine(f"{form_field.label} – this {form_field.error}", form_field.id)
        for form_field in fields
        if form_field.error is not None
    ]
    known = {form_field.name for form_field in fields}
    return [*linked, *[_ErrorLine(f"{name} – this {error}") for name, error in errors.items() if name not in known]]


@cache
def _environment() -> Environment:
    return Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        auto_reload=False,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _render(
    name: str, *, status: int = 200, headers: Mapping[str, str] | None = None, **values: object
) -> HTMLResponse:
    """Renders a page.

    `title` is the browser tab's; the page's own heading is in its content.
    """
    html = _environment().get_template(f"{name}.html").render(style=form_style(), **values)
    # "replace": a label may hold half of a surrogate pair, from JSON, which UTF-8 cannot encode.
    return HTMLResponse(html.encode("utf-8", "replace"), status, {**form_headers(), **(headers or {})})
