"""Form field values: what each type accepts from text and JSON, and its errors."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.triggers.property_settings import without_deadline
from triggers.form.field_values import FormFieldError, read_field
from workers.store.storable import check_storable
from workflows.package.trigger_specs.form_spec import FormInput


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        ("string", "5", "5"),
        ("integer", " 42 ", 42),
        ("integer", "-7", -7),
        ("integer", "9223372036854775807", 2**63 - 1),
        ("number", "1.5", 1.5),
        ("number", "3", 3),
        ("number", "-.5e3", -500.0),
        ("boolean", "1", True),
        ("boolean", "TRUE", True),
        ("boolean", "yes", True),
        ("boolean", "on", True),
        ("boolean", "0", False),
        ("boolean", "no", False),
    ],
)
def test_text_is_read_as_the_declared_type(kind: Any, text: str, value: object) -> None:
    read = read_field(FormInput(type=kind), text, from_text=True)
    assert read == value
    assert type(read) is type(value)


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("integer", "1.0"),
        ("integer", "1_000"),
        ("integer", "٣"),
        ("integer", "0x10"),
        ("integer", "9223372036854775808"),
        ("integer", "9" * 5000),
        ("number", "nan"),
        ("number", "inf"),
        ("number", "1e999"),
        ("number", "."),
        ("number", "1,5"),
        ("boolean", "maybe"),
        ("boolean", "y"),
    ],
)
def test_text_that_is_not_of_the_type_is_refused(kind: Any, text: str) -> None:
    with pytest.raises(FormFieldError):
        read_field(FormInput(type=kind), text, from_text=True)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("string", 5),
        ("string", ["a"]),
        ("string", "\ud800"),
        ("integer", "5"),
        ("integer", 5.0),
        ("integer", True),
        ("integer", 2**63),
        ("number", "1.5"),
        ("number", True),
        ("number", float("nan")),
        ("boolean", "true"),
        ("boolean", 1),
    ],
)
def test_json_is_not_converted(kind: Any, value: object) -> None:
    with pytest.raises(FormFieldError):
        read_field(FormInput(type=kind), value, from_text=False)


@pytest.mark.parametrize(
    ("form", "text"),
    [
        ("email", "ada@example.com"),
        ("email", "a.b+c@x-y.example.co.uk"),
        ("date", "2024-02-29"),
        ("uri", "https://example.com/a?b=c#d"),
        ("uri", "http://[::1]:8080/"),
    ],
)
def test_a_well_formed_text_is_taken(form: Any, text: str) -> None:
    assert read_field(FormInput(format=form), text, from_text=True) == text


@pytest.mark.parametrize(
    ("form", "text"),
    [
        ("email", "ada"),
        ("email", "ada@localhost"),
        ("email", "ada@@example.com"),
        ("email", "a..b@example.com"),
        ("email", "ada@-x.example"),
        ("email", "ada@example.com\n"),
        ("email", "ada@example.com\r\nBcc: x@y.z"),
        ("email", "a" * 65 + "@example.com"),
        ("date", "2026-02-29"),
        ("date", "2026-2-3"),
        ("date", "20260203"),
        ("date", "2026-W05-1"),
        ("date", "0000-01-01"),
        ("uri", "example.com"),
        ("uri", "javascript:alert(1)"),
        ("uri", "file:///etc/passwd"),
        ("uri", "https://"),
        ("uri", "https://exa mple.com"),
        ("uri", "https://example.com:99999/"),
        ("uri", "https://[::1/"),
    ],
)
def test_an_ill_formed_text_is_refused(form: Any, text: str) -> None:
    with pytest.raises(FormFieldError):
        read_field(FormInput(format=form), text, from_text=True)


def test_an_enum_takes_its_choices_only() -> None:
    spec = FormInput(type="integer", enum=(1, 2))

    assert read_field(spec, "2", from_text=True) == 2
    with pytest.raises(FormFieldError, match="must be one of 1, 2"):
        read_field(spec, "3", from_text=True)
    with pytest.raises(FormFieldError):
        read_field(FormInput(type="boolean", enum=(1,)), True, from_text=False)


def test_text_longer_than_declared_is_refused() -> None:
    assert read_field(FormInput(max_length=3), "äöü", from_text=True) == "äöü"
    with pytest.raises(FormFieldError, match="longer than 3"):
        read_field(FormInput(max_length=3), "äöüß", from_text=True)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=5,
)
SPECS = st.builds(
    FormInput,
    type=st.sampled_from(["string", "integer", "number", "boolean"]),
    format=st.sampled_from([None, "email", "date", "uri"]),
)


@without_deadline
@given(spec=SPECS, value=JSON, from_text=st.booleans())
def test_whatever_is_taken_can_be_kept_and_the_rest_is_a_field_error(
    spec: FormInput, value: object, from_text: bool
) -> None:
    try:
        read = read_field(spec, value, from_text=from_text)
    except FormFieldError:
        return
    check_storable(read)
