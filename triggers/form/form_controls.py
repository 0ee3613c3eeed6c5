"""Form controls: how a form shows each field, with label, hint and error."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any, Literal

from workers.setting_values import TRUE_WORDS
from workflows.package.trigger_specs.form_spec import FormInput

Control = Literal["input", "checkbox", "select", "textarea"]

_INPUT_TYPES = {"email": "email", "uri": "url"}
# The numbers of HTML, which are fewer than those that a form takes.
_INTEGER = re.compile(r"-?[0-9]+")
_DECIMAL = re.compile(r"-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_AUTOCOMPLETE_BY_FORMAT = {"email": "email", "uri": "url"}
# The tokens that browsers complete, by the names that authors give to such fields.
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
    """One field as the templates show it.

    `id` is generated: a name may hold what a link cannot point at.
    """

    id: str
    name: str
    spec: FormInput
    value: Any = None  # as it was sent, or the default
    error: str | None = None

    @property
    def label(self) -> str:
        return self.spec.label.strip() or humanize_name(self.name)

    @property
    def hint(self) -> str:
        is_bounded = self.spec.multiline and "max_length" in self.spec.model_fields_set
        bound = f"At most {self.spec.max_length:,} characters." if is_bounded else ""
        return " ".join(filter(None, (self.spec.description, bound)))

    @property
    def control(self) -> Control:
        if self.spec.type == "boolean":
            return "checkbox"
        if self.spec.enum:
            return "select"
        is_textarea = self.spec.type == "string" and self.spec.multiline and self.spec.format is None
        return "textarea" if is_textarea else "input"

    @property
    def text(self) -> str:
        """The value that was sent, as far as a control can hold it."""
        return _control_text(self.value)

    @property
    def is_checked(self) -> bool:
        return self.value is True or self.text.strip().lower() in TRUE_WORDS

    @property
    def options(self) -> Sequence[str]:
        return [text for text in map(_control_text, self.spec.enum) if text]

    @property
    def has_empty_option(self) -> bool:
        return not (self.spec.required and self.text in self.options)

    @property
    def attributes(self) -> Mapping[str, str | int | None]:
        """The attributes of the control; None leaves one out.

        There is no `required`: a browser that checks it reports one missing field at a time, where the answer to a
        submitted form reports all. Browsers still check what they alone see, such as a half-typed date.
        """
        described_by = [f"{self.id}-hint"] if self.hint else []
        described_by += [f"{self.id}-error"] if self.error else []
        return {
            "id": self.id,
            "name": self.name,
            "aria-required": "true" if self.spec.required else None,
            "aria-invalid": "true" if self.error else None,
            "aria-describedby": " ".join(described_by) or None,
            **self._own_attributes(),
        }

    def _own_attributes(self) -> Mapping[str, str | int | None]:
        spec, control = self.spec, self.control
        if control == "checkbox":
            return {"type": "checkbox", "value": "true"}
        if control == "select":
            return {}
        if spec.type != "string":
            return {"value": self.text, **_number_attributes(spec, self.text)}
        autocomplete = _autocomplete_token(self)
        if control == "textarea":
            return {"rows": _LINES, "maxlength": spec.max_length, "autocomplete": autocomplete}
        if spec.format == "date":
            type_ = "date" if _is_date(self.text) else "text"
            return {"type": type_, "value": self.text, "autocomplete": autocomplete}
        type_ = _INPUT_TYPES.get(spec.format or "", "text")
        return {"type": type_, "value": self.text, "maxlength": spec.max_length, "autocomplete": autocomplete}


def humanize_name(name: str) -> str:
    """Turns `first_name` into `First name`."""
    words = name.replace("_", " ").replace("-", " ").strip() or name  # a name of dashes alone stays
    return words[:1].upper() + words[1:]


def _number_attributes(spec: FormInput, text: str) -> dict[str, str]:
    """Shows text that is no HTML number in a text control, to be corrected."""
    if spec.type == "integer":
        native, fallback = {"type": "number", "step": "1"}, {"type": "text", "inputmode": "numeric"}
        return native if not text or _INTEGER.fullmatch(text) else fallback
    native, fallback = {"type": "number", "step": "any"}, {"type": "text", "inputmode": "decimal"}
    return native if not text or _DECIMAL.fullmatch(text) else fallback


def _is_date(text: str) -> bool:
    try:
        return not text or date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False


def _control_text(value: Any) -> str:
    return "" if value is None or isinstance(value, dict | list) else str(value)


def _autocomplete_token(field: FormField) -> str | None:
    plain_name = field.name.lower().replace("_", "").replace("-", "")
    return _AUTOCOMPLETE_BY_FORMAT.get(field.spec.format or "") or _AUTOCOMPLETE_BY_NAME.get(plain_name)
