"""API keys: what a rate may be, and how many calls at once it lets in."""

from datetime import UTC, datetime, timedelta

import pytest

from triggers.api_keys import ApiKey, format_rate, has_key_format, parse_rate

NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(("text", "burst"), [("100/s", 200), ("1/s", 2), ("600/m", 600), ("5/h", 5)])
def test_a_rate_is_read_and_written_alike(text: str, burst: int) -> None:
    assert format_rate(parse_rate(text)) == text
    assert ApiKey("k", "n", None, NOW, rate=parse_rate(text)).burst == burst


@pytest.mark.parametrize("text", ["", "0/s", "-1/s", "1.5/s", "10", "10/d", "10/s/s", "1e3/s", "٣/s", "1234567/s"])
def test_what_is_no_rate_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ValueError, match="100/s"):
        parse_rate(text)


def test_a_key_is_good_until_it_is_revoked_or_expires() -> None:
    assert ApiKey("k", "n", None, NOW).is_valid(NOW)
    assert not ApiKey("k", "n", None, NOW, revoked_at=NOW).is_valid(NOW)
    assert ApiKey("k", "n", None, NOW, expires_at=NOW + timedelta(seconds=1)).is_valid(NOW)
    assert not ApiKey("k", "n", None, NOW, expires_at=NOW).is_valid(NOW)


def test_only_a_key_that_was_made_for_it_and_may_write_approves() -> None:
    assert not ApiKey("k", "n", None, NOW).may_approve
    assert ApiKey("k", "n", None, NOW, may=("approve",)).may_approve
    assert not ApiKey("k", "n", None, NOW, access="read", may=("approve",)).may_approve


def test_what_cannot_be_a_key_is_known_without_asking() -> None:
    assert has_key_format("ua_" + "aZ0-_" * 8 + "abc")
    for text in (
        "",
        "ua_",
        "ua_" + "x" * 42,
        "ua_" + "x" * 44,
        "xx_" + "x" * 43,
        "ua_" + "ü" * 43,
        "ua_" + "x" * 42 + "\n",
    ):
        assert not has_key_format(text)
