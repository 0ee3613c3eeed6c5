"""The pages of a form: to fill it in, to see it was taken, and to learn why it could not be."""

import base64
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from starlette.responses import HTMLResponse, Response

from triggers.form.form_controls import FormField, humanize_name, render_control
from triggers.form.form_style import STYLE
from triggers.form.markup import NOTHING, Markup, element, join_markup
from triggers.gateway.http_problems import PausedError, ProblemError
from workflows.package.trigger_specs.form_spec import DELIVERY_FIELD, FormSpec

_STYLE_HASH = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()

SECURITY_HEADERS = {
    "content-security-policy": (
        f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}'; form-action 'self'; frame-ancestors 'none'; "
        "base-uri 'none'"
    ),
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
}
_HEAD = Markup(
    '<meta charset="utf-8">\n<meta name="viewport" content="width=device-width, initial-scale=1">\n'
    f'<meta name="robots" content="noindex">\n<style>{STYLE}</style>\n'
)


@dataclass(frozen=True, slots=True)
class SubmittedForm:
    """A form as somebody sent it."""

    delivery: str
    values: Mapping[str, Any] = field(repr=False)
    errors: Mapping[str, str] = field(default_factory=dict)


def empty_page(spec: FormSpec, *, delivery: str) -> Response:
    defaults = {name: each.default for name, each in spec.inputs.items()}
    return _form_page(spec, SubmittedForm(delivery, defaults), NOTHING)


def refused_page(spec: FormSpec, submission: SubmittedForm) -> Response:
    """With every error beside its field, and what was written still there."""
    summary = _summary("There is a problem", _error_list(_form_fields(spec, submission), submission.errors))
    return _form_page(spec, submission, summary, status=422, title_prefix="Error")


def unsent_page(spec: FormSpec, submission: SubmittedForm, problem: ProblemError) -> Response:
    """Nothing was taken: what was written is still there, to be sent again."""
    heading, advice = _unsent_text(problem)
    detail = element("p", _problem_text(problem)) if problem.status in _DETAILED_STATUSES else NOTHING
    summary = _summary(
        heading, join_markup(element("p", f"Nothing was taken, but what you wrote is still below. {advice}"), detail)
    )
    return _form_page(
        spec, submission, summary, status=problem.status, title_prefix="Not sent", headers=problem.headers
    )


def accepted_page(spec: FormSpec, *, run_id: str, form_path: str) -> Response:
    number = element("span", run_id, class_="number")
    return render_page(
        f"Thank you – {_title(spec)}",
        element("h1", "Thank you"),
        element("p", "We received your answers."),
        element("p", "Their number, should you ask about them: ", number),
        element("p", element("a", "Fill in the form again", href=form_path)),
    )


def closed_page(problem: ProblemError) -> Response:
    return render_page(
        "Closed at the moment",
        element("h1", _CLOSED),
        element("p", "It takes no answers now. Please try again later."),
        status=problem.status,
        headers=problem.headers,
    )


def problem_page(problem: ProblemError) -> Response:
    heading, advice = _PROBLEM_TEXTS.get(problem.status, _DEFAULT_PROBLEM_TEXT)
    detail = element("p", _problem_text(problem), class_="hint") if problem.status in _DETAILED_STATUSES else NOTHING
    return render_page(
        heading,
        element("h1", heading),
        element("p", advice),
        detail,
        status=problem.status,
        headers=problem.headers,
    )


def _unsent_text(problem: ProblemError) -> tuple[str, str]:
    if isinstance(problem, PausedError):
        return _CLOSED, "Please send it again later."
    if problem.status in _TRANSIENT_STATUSES:
        return "We could not take your answers just now", "Please send it again in a moment."
    return "We could not take your answers", "Please change it and send it again, or ask whoever gave you this address."


def _problem_text(problem: ProblemError) -> str:
    return f"What is wrong: {problem.detail}."


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


def _form_page(
    spec: FormSpec,
    submission: SubmittedForm,
    summary: Markup,
    *,
    status: int = 200,
    title_prefix: str = "",
    headers: Mapping[str, str] | None = None,
) -> Response:
    title = _title(spec)
    # Firefox would otherwise put the number of the last page into this one when it is reloaded.
    delivery = element("input", type="hidden", name=DELIVERY_FIELD, value=submission.delivery, autocomplete="off")
    # Without an action it goes to the page's own address, with the query that expressions can see.
    form = element(
        "form",
        delivery,
        *map(render_control, _form_fields(spec, submission)),
        element("button", "Send", type="submit"),
        method="post",
    )
    intro = element("p", spec.description, class_="intro") if spec.description else NOTHING
    tab = f"{title_prefix}: {title}" if title_prefix else title
    return render_page(tab, summary, element("h1", title), intro, form, status=status, headers=headers)


def _title(spec: FormSpec) -> str:
    return spec.title.strip() or humanize_name(spec.name)


def _form_fields(spec: FormSpec, submission: SubmittedForm) -> Sequence[FormField]:
    return [
        FormField(f"field-{place}", name, each, submission.values.get(name), submission.errors.get(name))
        for place, (name, each) in enumerate(spec.inputs.items(), start=1)
    ]


def _summary(heading: str, content: Markup) -> Markup:
    """The first thing on the page, and what a browser and a screen reader go to."""
    title = element("h2", heading, id="summary-title")
    return element(
        "div",
        title,
        content,
        class_="summary",
        role="alert",
        aria_labelledby="summary-title",
        tabindex=-1,
        autofocus=True,
    )


def _error_list(fields: Sequence[FormField], errors: Mapping[str, str]) -> Markup:
    """Each leads to its field; of a field that the form does not have there is nowhere to lead."""
    wrong = [each for each in fields if each.error is not None]
    links = [element("li", element("a", f"{each.label} – this {each.error}", href=f"#{each.id}")) for each in wrong]
    known = {each.name for each in fields}
    others = [element("li", f"{name} – this {error}") for name, error in errors.items() if name not in known]
    return element("ul", join_markup(*links, *others))


def render_page(
    title: str, *content: Markup | str, status: int = 200, headers: Mapping[str, str] | None = None
) -> HTMLResponse:
    """`title` is the tab's; the page's own heading is in its content."""
    head = element("head", _HEAD, element("title", title))
    body = element("body", element("main", *content))
    page = "<!doctype html>\n" + element("html", head, "\n", body, lang="en").html
    # A label may hold what UTF-8 cannot say: half of a character, from JSON.
    return HTMLResponse(page.encode("utf-8", "replace"), status, {**SECURITY_HEADERS, **(headers or {})})
