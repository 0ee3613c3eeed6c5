"""The Accept header: which clients get a page, and which get JSON."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.triggers.property_settings import without_deadline
from triggers.form.accept_header import is_html_preferred


@pytest.mark.parametrize(
    "accept",
    [
        "text/html",
        "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8",
        "application/json;q=0.5, TEXT/HTML",
    ],
)
def test_a_browser_gets_a_page(accept: str) -> None:
    assert is_html_preferred(accept)


@pytest.mark.parametrize(
    "accept", ["", "*/*", "application/json", "text/html, application/json", "text/html;q=0.1, */*", "text/html;q=x"]
)
def test_any_other_client_gets_json(accept: str) -> None:
    assert not is_html_preferred(accept)


@without_deadline
@given(st.text())
def test_no_header_breaks_it(accept: str) -> None:
    is_html_preferred(accept)
