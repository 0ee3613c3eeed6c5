"""Controls: one field of a form as HTML, with its label, its hint and what is wrong with it bound to it."""

import re
from dataclasses import dataclass
from datetime import date
from typing import Any

from triggers.form.markup import NOTHING, Markup, element
from workers.setting_values import TRUE_WORDS
from workflows.package.trigger_specs.form_spec import FormInput

_INPUT_TYPES = {"email": "email", "uri": "url"}
# What HTML takes as a number; a bit less than we do.
_INTEGER = re.compile(r"-?[0-9]+")
_DECIMAL = re.compile(r"-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_AUTOCOMPLETE_BY_FORMAT = {"email": "email", "uri": "url"}
# What browsers know about their user, by the names that authors give to such fields.
_AUTOCOMPLETE_BY_NAME = {
    "name": "name",
    "fullname": "name",
    "firstname": "given-name",
    "givenname": "given-name",
    "lastname": "family-name",
    "familyname": "family-name",
    "surname": "family-name",
    "phone": "tel",
    "telephone": "tel",
    "company": "organization",
    "organisation": "organization",
    "organization": "organization",
}
_LINES = 5


@dataclass(frozen=True, slots=True)
class FormField:
    """`id` is ours: a name may hold what an address cannot point at."""

    id: str
    name: str
    spec: FormInput
    value: Any = None  # as it was sent, or the default
    error: str | None = None

    @property
    def label(self) -> str:
        return self.spec.label.strip() or humanize_name(self.name)


def humanize_name(name: str) -> str:
    """`first_name` as a person reads it."""
    words = name.replace("_", " ").replace("-", " ").strip() or name  # of dashes alone
    return words[:1].upper() + words[1:]


def render_control(field: FormField) -> Markup:
    hint, error = _hint(field), _error(field)
    name = "field is-wrong" if field.error else "field"
    if field.spec.type == "boolean":
        return element("div", _checkbox(field), _label(field), hint, error, class_=f"{name} box")
    return element("div", _label(field), hint, error, _input_element(field), class_=name)


def _label(field: FormField) -> Markup:
    mark = element("span", " (required)", class_="mark") if field.spec.required else NOTHING
    return element("label", field.label, mark, for_=field.id)


def _hint(field: FormField) -> Markup:
    text = _hint_text(field.spec)
    return element("p", text, id=f"{field.id}-hint", class_="hint") if text else NOTHING


def _hint_text(spec: FormInput) -> str:
    is_bounded = spec.multiline and "max_length" in spec.model_fields_set
    return " ".join(filter(None, (spec.description, f"At most {spec.max_length:,} characters." if is_bounded else "")))


def _error(field: FormField) -> Markup:
    if field.error is None:
        return NOTHING
    told = element("span", "Error: ", class_="unseen"), f"This {field.error}."
    return element("p", *told, id=f"{field.id}-error", class_="error")


def _common(field: FormField) -> dict[str, str | bool | None]:
    """No `required`: a browser that checks it would hold the form back and tell one missing field at a time, where our
    answer tells all. It still checks what it alone can see, a number or date that is typed by half and that it
    would send as nothing."""
    described = [f"{field.id}-hint"] if _hint_text(field.spec) else []
    described += [f"{field.id}-error"] if field.error else []
    return {
        "id": field.id,
        "name": field.name,
        "aria_required": "true" if field.spec.required else None,
        "aria_invalid": "true" if field.error else None,
        "aria_describedby": " ".join(described) or None,
    }


def _input_element(field: FormField) -> Markup:
    spec, common = field.spec, _common(field)
    if spec.enum:
        return element("select", *_choices(field), **common)
    text = _control_text(field.value)
    if spec.type != "string":
        return element("input", value=text, **_number(spec, text), **common)
    common["autocomplete"] = _autocomplete_token(field)
    if spec.multiline and spec.format is None:
        # A browser leaves out a newline right behind the tag.
        return element("textarea", f"\n{text}", rows=_LINES, maxlength=spec.max_length, **common)
    if spec.format == "date":
        return element("input", type="date" if _is_date(text) else "text", value=text, **common)
    kind = _INPUT_TYPES.get(spec.format or "", "text")
    return element("input", type=kind, value=text, maxlength=spec.max_length, **common)


def _number(spec: FormInput, text: str) -> dict[str, str]:
    """A browser shows nothing for what is no number, and counts the steps from what it is given: such a text is
    shown as a text, for its writer to correct."""
    if spec.type == "integer":
        native, otherwise = {"type": "number", "step": "1"}, {"type": "text", "inputmode": "numeric"}
        return native if not text or _INTEGER.fullmatch(text) else otherwise
    native, otherwise = {"type": "number", "step": "any"}, {"type": "text", "inputmode": "decimal"}
    return native if not text or _DECIMAL.fullmatch(text) else otherwise


def _is_date(text: str) -> bool:
    try:
        return not text or date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False


def _choices(field: FormField) -> list[Markup]:
    spec, given = field.spec, _control_text(field.value)
    texts = [text for text in map(_control_text, spec.enum) if text]
    nothing = [] if spec.required and given in texts else [element("option", "Choose one", value="")]
    return nothing + [element("option", text, value=text, selected=text == given) for text in texts]


def _checkbox(field: FormField) -> Markup:
    is_ticked = field.value is True or _control_text(field.value).strip().lower() in TRUE_WORDS
    return element("input", type="checkbox", value="true", checked=is_ticked, **_common(field))


def _control_text(value: Any) -> str:
    """Of what was sent only what a control can hold."""
    return "" if value is None or isinstance(value, dict | list) else str(value)


def _autocomplete_token(field: FormField) -> str | None:
    plain = field.name.lower().replace("_", "").replace("-", "")
    return _AUTOCOMPLETE_BY_FORMAT.get(field.spec.format or "") or _AUTOCOMPLETE_BY_NAME.get(plain)
