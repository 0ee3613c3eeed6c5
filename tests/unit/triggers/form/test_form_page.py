"""Form pages: bound labels, errors beside their fields, and text that never becomes markup."""

import base64
import hashlib
import re
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.unit.triggers.form.parsed_page import ParsedPage, parse_response
from tests.unit.triggers.property_settings import without_deadline
from triggers.form.form_page import (
    SubmittedForm,
    accepted_page,
    closed_page,
    empty_page,
    form_headers,
    form_style,
    problem_page,
    refused_page,
    unsent_page,
)
from triggers.gateway.http_problems import PausedError, ProblemError, unavailable_problem
from workflows.package.trigger_specs.form_spec import FormInput, FormSpec

DELIVERY = "01KACVXM8E5Y5Q0T3Y4F6H7J8K"
INPUTS = {
    "email": FormInput(format="email", required=True, description="We write nowhere else."),
    "first_name": FormInput(label="Given name", max_length=40),
    "seats": FormInput(type="integer", default=2),
    "price": FormInput(type="number"),
    "plan": FormInput(enum=("basic", "pro"), required=True),
    "start": FormInput(format="date"),
    "site": FormInput(format="uri"),
    "note": FormInput(multiline=True, max_length=500),
    "news": FormInput(type="boolean", default=True),
}
SPEC = FormSpec(name="demo_request", description="Two minutes.", inputs=INPUTS)
WRONG = {"email": "is required", "plan": "must be one of basic, pro", "admin": "is not a field of this form"}


def filled_page(values: dict[str, Any], errors: dict[str, str] | None = None) -> SubmittedForm:
    return SubmittedForm(DELIVERY, values, errors or {})


def check_accessible(page: ParsedPage) -> None:
    ids = [each.attributes["id"] for each in page.elements if "id" in each.attributes]
    assert len(ids) == len(set(ids)), "no id twice"
    assert page.one("html").attributes["lang"] == "en"
    assert page.one("title").text
    assert len(page.all("main")) == len(page.all("h1")) == 1
    labelled = {each.attributes["for"]: each.text for each in page.all("label")}
    assert all(text.removesuffix(" (required)").strip() for text in labelled.values())
    assert labelled.keys() == {each.attributes["id"] for each in page.controls}
    for each in page.controls:
        described = each.attributes.get("aria-describedby", "").split()
        assert all(page.by_id(id_).text for id_ in described)
        is_wrong = each.attributes.get("aria-invalid") == "true"
        assert is_wrong is (f"{each.attributes['id']}-error" in described)
        is_required = each.attributes.get("aria-required") == "true"
        assert is_required is labelled[each.attributes["id"]].endswith("(required)")
    for link in page.all("a"):
        if link.attributes["href"].startswith("#"):
            assert page.by_id(link.attributes["href"][1:]) in page.controls


def test_each_type_has_its_native_control() -> None:
    page = parse_response(empty_page(SPEC, delivery=DELIVERY))

    check_accessible(page)
    kinds = {each.attributes["name"]: (each.tag, each.attributes.get("type")) for each in page.controls}
    assert kinds == {
        "email": ("input", "email"),
        "first_name": ("input", "text"),
        "seats": ("input", "number"),
        "price": ("input", "number"),
        "plan": ("select", None),
        "start": ("input", "date"),
        "site": ("input", "url"),
        "note": ("textarea", None),
        "news": ("input", "checkbox"),
    }
    assert page.control("seats").attributes["step"] == "1"
    assert page.control("price").attributes["step"] == "any"
    assert page.control("first_name").attributes["maxlength"] == "40"
    assert page.control("first_name").attributes["autocomplete"] == "given-name"
    assert page.control("email").attributes["autocomplete"] == "email"


def test_an_empty_form_shows_its_defaults_and_no_error() -> None:
    page = parse_response(empty_page(SPEC, delivery=DELIVERY))

    assert page.one("h1").text == page.one("title").text == "Demo request"
    assert page.control("seats").attributes["value"] == "2"
    assert "checked" in page.control("news").attributes
    assert [each.text for each in page.all("option")] == ["Choose one", "basic", "pro"]
    assert page.all("h2") == []
    hidden = [each.attributes for each in page.all("input") if each.attributes["type"] == "hidden"]
    assert [(each["name"], each["value"]) for each in hidden] == [("_delivery", DELIVERY)]


def test_what_was_written_stays_and_each_error_is_beside_its_field() -> None:
    values = {"email": "", "first_name": "Ada", "plan": "gold", "note": "one\ntwo", "seats": "7", "admin": "1"}

    response = refused_page(SPEC, filled_page(values, WRONG))

    page = parse_response(response)
    check_accessible(page)
    assert response.status_code == 422
    assert page.one("title").text == "Error: Demo request"
    assert page.by_id("field-1-error").text == "Error: This is required."
    assert page.by_id("field-5-error").text == "Error: This must be one of basic, pro."
    assert [(each.attributes["href"], each.text) for each in page.all("a")] == [
        ("#field-1", "Email – this is required"),
        ("#field-5", "Plan – this must be one of basic, pro"),
    ]
    assert page.all("li")[-1].text == "admin – this is not a field of this form"
    assert page.control("first_name").attributes["value"] == "Ada"
    assert page.control("seats").attributes["value"] == "7"
    assert page.control("note").text == "\none\ntwo"  # a browser leaves out the first newline
    assert "checked" not in page.control("news").attributes


@pytest.mark.parametrize(
    ("name", "text", "kind"),
    [
        ("seats", "7", "number"),
        ("seats", "1.5", "text"),
        ("seats", "many", "text"),
        ("price", "-1.5e3", "number"),
        ("price", "1,5", "text"),
        ("start", "2024-02-29", "date"),
        ("start", "2026-02-29", "text"),
        ("start", "20260203", "text"),
    ],
)
def test_what_a_native_control_would_not_show_is_shown_as_a_text(name: str, text: str, kind: str) -> None:
    page = parse_response(refused_page(SPEC, filled_page({name: text}, {name: "must be something else"})))

    control = page.control(name).attributes
    assert (control["type"], control["value"]) == (kind, text)


def test_the_summary_of_errors_comes_first_and_is_focused() -> None:
    page = parse_response(refused_page(SPEC, filled_page({}, WRONG)))

    order = [each.tag for each in page.elements if each.path[:3] == ("html", "body", "main")]
    assert order.index("a") < order.index("h1") < order.index("form")
    [summary] = [each for each in page.elements if "autofocus" in each.attributes]
    assert (summary.attributes["role"], summary.attributes["tabindex"]) == ("alert", "-1")


@pytest.mark.parametrize(
    ("problem", "heading", "advice"),
    [
        (unavailable_problem(), "We could not take your answers just now", "send it again in a moment."),
        (PausedError(), "This form is closed at the moment", "Please send it again later."),
        (ProblemError(429, "internal"), "We could not take your answers just now", "send it again in a moment."),
        (ProblemError(400, "the moon is full"), "We could not take your answers", "What is wrong: the moon is full."),
        (ProblemError(404, "internal"), "We could not take your answers", "ask whoever gave you this address."),
    ],
)
def test_a_form_that_could_not_be_kept_comes_back_as_it_was(problem: ProblemError, heading: str, advice: str) -> None:
    response = unsent_page(SPEC, filled_page({"first_name": "Ada"}), problem)

    page = parse_response(response)
    check_accessible(page)
    assert response.status_code == problem.status
    assert response.headers.get("retry-after") == problem.headers.get("retry-after")
    assert page.control("first_name").attributes["value"] == "Ada"
    assert page.one("h2").text == heading
    assert "Nothing was taken, but what you wrote is still below." in page.one("main").text
    assert advice in page.one("main").text
    assert "internal" not in page.one("main").text


@pytest.mark.parametrize("status", [400, 404, 408, 413, 415, 503])
def test_every_problem_is_a_page_with_its_status(status: int) -> None:
    problem = ProblemError(status, "the <body> is wrong", headers={"retry-after": "5"})

    for response in (problem_page(problem), closed_page(problem)):
        page = parse_response(response)
        check_accessible(page)
        assert (response.status_code, response.headers["retry-after"]) == (status, "5")
        assert not page.all("form")


def test_the_policy_allows_this_one_sheet_and_nothing_else() -> None:
    policy = empty_page(SPEC, delivery=DELIVERY).headers["content-security-policy"]

    style = parse_response(empty_page(SPEC, delivery=DELIVERY)).one("style").text
    told = re.fullmatch(
        r"default-src 'none'; style-src 'sha256-([^']+)'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
        policy,
    )
    assert told is not None
    assert base64.b64decode(told[1]) == hashlib.sha256(style.encode()).digest()
    assert not re.search(r"url\(|@import|</", style)
    assert form_headers()["cache-control"] == "no-store"


NASTY = st.text() | st.sampled_from(
    [
        "<script>alert(1)</script>",
        '"><img src=x onerror=alert(1)>',
        "' autofocus onfocus='alert(1)",
        "</textarea><script>alert(1)</script>",
        "</style><!--",
        "&lt;b&gt;",
        "javascript:alert(1)",
        "\ud800",
        "\x00",
    ]
)
NAMES = NASTY.filter(lambda name: bool(name.strip()) and name.isprintable() and not name.startswith("_"))
ANY_INPUT = st.builds(
    FormInput,
    type=st.sampled_from(["string", "integer", "number", "boolean"]),
    format=st.sampled_from([None, "email", "date", "uri"]),
    required=st.booleans(),
    enum=st.lists(NASTY, max_size=2).map(tuple),
    label=NASTY,
    description=NASTY,
    multiline=st.booleans(),
)
KNOWN_TAGS = {
    *("html", "head", "meta", "style", "title", "body", "main", "h1", "h2", "p", "div", "span", "ul", "li", "a"),
    *("form", "label", "input", "select", "option", "textarea", "button"),
}
KNOWN_ATTRIBUTES = {
    *("id", "class", "for", "name", "type", "value", "checked", "selected", "step", "rows", "maxlength", "tabindex"),
    *("aria-required", "aria-invalid", "aria-describedby", "aria-labelledby", "role", "autocomplete", "autofocus"),
    *("inputmode", "href", "method", "lang", "charset", "content"),
}


@without_deadline
@given(
    inputs=st.dictionaries(NAMES, ANY_INPUT, min_size=1, max_size=3),
    texts=st.tuples(NASTY, NASTY, NASTY),
    values=st.lists(NASTY | st.integers() | st.lists(st.none(), max_size=1), min_size=3, max_size=3),
)
@example(inputs={"<b>": FormInput(label="</label>")}, texts=("<i>", "<i>", "<i>"), values=["</option>", "", ""])
def test_no_text_becomes_markup(
    inputs: dict[str, FormInput], texts: tuple[str, str, str], values: list[object]
) -> None:
    title, description, error = texts
    spec = FormSpec(name="form", title=title, description=description, inputs=inputs)
    given_values = dict(zip(inputs, values, strict=False))
    errors = dict.fromkeys([*inputs, "<unknown>"], error)

    page = parse_response(refused_page(spec, SubmittedForm(DELIVERY, given_values, errors)))

    assert {each.tag for each in page.elements} <= KNOWN_TAGS
    assert {name for each in page.elements for name in each.attributes} <= KNOWN_ATTRIBUTES
    assert all(each.attributes["href"].startswith("#field-") for each in page.all("a"))
    assert len(page.controls) == len(inputs)


def test_the_thank_you_page_leads_back_to_an_empty_form() -> None:
    page = parse_response(accepted_page(SPEC, run_id="run_1", form_path="/forms/acme/Sales/demo"))

    check_accessible(page)
    assert page.one("a").attributes["href"] == "/forms/acme/Sales/demo"
    assert "run_1" in page.one("main").text


def contrast(one: str, other: str) -> float:
    """As WCAG 2 defines it."""

    def luminance(colour: str) -> float:
        channels = (int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5))
        linear = [each / 12.92 if each <= 0.04045 else ((each + 0.055) / 1.055) ** 2.4 for each in channels]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    lighter, darker = sorted((luminance(one), luminance(other)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


def colours_of(sheet: str) -> dict[str, str]:
    return dict(re.findall(r"--([a-z-]+):(#[0-9a-f]{6});", sheet))


LIGHT, DARK = map(colours_of, form_style().split("@media(prefers-color-scheme:dark)"))


@pytest.mark.parametrize("colours", [LIGHT, DARK], ids=["light", "dark"])
def test_text_and_edges_stand_out_from_what_they_are_on(colours: dict[str, str]) -> None:
    texts = [
        *(("ink", "paper"), ("soft", "paper"), ("wrong", "paper"), ("accent", "paper")),
        *(("ink", "wrong-ground"), ("wrong", "wrong-ground"), ("ink", "ground"), ("on-accent", "accent")),
    ]
    edges = [("edge", "paper"), ("wrong", "paper"), ("accent", "paper"), ("accent", "wrong-ground")]

    assert {pair: contrast(colours[pair[0]], colours[pair[1]]) for pair in texts if _is_under(colours, pair, 4.5)} == {}
    assert {pair: contrast(colours[pair[0]], colours[pair[1]]) for pair in edges if _is_under(colours, pair, 3)} == {}


def _is_under(colours: dict[str, str], pair: tuple[str, str], minimum: float) -> bool:
    return contrast(colours[pair[0]], colours[pair[1]]) < minimum
