"""Who gets a page and who gets JSON."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.triggers.unhurried import unhurried
from triggers.form.accept_header import prefers_html


@pytest.mark.parametrize(
    "accept",
    [
        "text/html",
        "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8",
        "application/json;q=0.5, TEXT/HTML",
    ],
)
def test_a_browser_gets_a_page(accept: str) -> None:
    assert prefers_html(accept)


@pytest.mark.parametrize(
    "accept", ["", "*/*", "application/json", "text/html, application/json", "text/html;q=0.1, */*", "text/html;q=x"]
)
def test_anybody_else_gets_json(accept: str) -> None:
    assert not prefers_html(accept)


@unhurried
@given(st.text())
def test_no_header_breaks_it(accept: str) -> None:
    prefers_html(accept)
