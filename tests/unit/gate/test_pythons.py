"""Versions of Python that the fast tests run on."""

import pytest

from tests.pythons import others


@pytest.mark.parametrize(
    ("found", "running", "expected"),
    [
        ([], "3.11", []),
        (["3.13"], "3.11", ["3.13"]),
        (["3.12", "3.13"], "3.11", ["3.13"]),
        (["3.11", "3.13"], "3.12", ["3.11", "3.13"]),
        (["3.11", "3.12"], "3.13", ["3.11"]),
    ],
)
def test_the_oldest_and_the_newest_are_added_to_the_running_one(
    found: list[str], running: str, expected: list[str]
) -> None:
    paths = {version: f"/usr/bin/python{version}" for version in found}

    assert list(others(paths, running=running)) == expected
