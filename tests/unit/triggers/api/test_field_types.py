"""Times and names as the API takes them."""

from datetime import UTC, datetime

import pytest
from pydantic import TypeAdapter, ValidationError

from triggers.api.field_types import Moment, Name
from triggers.api.trigger_models import ResumeRequest

MOMENT: TypeAdapter[datetime] = TypeAdapter(Moment)
NAME: TypeAdapter[str] = TypeAdapter(Name)


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2026-01-31T08:00:00Z", datetime(2026, 1, 31, 8, tzinfo=UTC)),
        ("2026-01-31t08:00:00.5z", datetime(2026, 1, 31, 8, 0, 0, 500_000, tzinfo=UTC)),
        ("2026-01-31T09:00:00+01:00", datetime(2026, 1, 31, 8, tzinfo=UTC)),
        ("0001-01-01T00:00:00+10:00", datetime(1, 1, 1, tzinfo=UTC)),
        ("9999-12-31T23:59:59-10:00", datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)),
    ],
)
def test_a_time_has_an_offset_and_is_kept_in_utc(text: str, moment: datetime) -> None:
    assert MOMENT.validate_python(text, strict=True) == moment


@pytest.mark.parametrize(
    "value",
    [
        "",
        "now",
        "2026-01-31",
        "2026-01-31T08:00:00",
        "2026-02-30T00:00:00Z",
        1_900_000_000,
        True,
        None,
        "٢٠٢٦-01-31T08:00:00Z",
    ],
)
def test_what_is_no_time_is_refused_with_an_example(value: object) -> None:
    with pytest.raises(ValidationError, match="2026-01-31T08:00:00Z"):
        MOMENT.validate_python(value)


def test_a_plus_that_an_address_made_a_space_is_explained() -> None:
    with pytest.raises(ValidationError, match="%2B"):
        MOMENT.validate_python("2026-01-31T09:00:00 01:00")


def test_one_sentence_is_reported_for_any_invalid_value() -> None:
    place: TypeAdapter[object] = TypeAdapter(ResumeRequest)
    unfit: list[object] = [5, "then", "", [], {}]
    for bad in unfit:
        with pytest.raises(ValidationError) as told:
            place.validate_python({"from": bad})
        [error] = told.value.errors()
        assert (error["loc"], error["msg"]) == (
            ("from",),
            "Value error, must be 'now', 'token' or a time with an offset, such as 2026-01-31T08:00:00Z",
        )
    for good in ("now", "token", "2026-01-31T08:00:00Z", None):
        place.validate_python({"from": good})


def test_a_name_is_one_line_of_text() -> None:
    for good in ("acme", "Größe 5", "a/b?c", "店"):
        assert NAME.validate_python(good) == good
    for bad in ("", "a\nb", "a\x00", "\x85", "x" * 201, "a\n", 5):
        with pytest.raises(ValidationError):
            NAME.validate_python(bad)
