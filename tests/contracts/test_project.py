"""The project against the card that names it: its folders, and the packages that it is built on."""

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def names_of(requirements: list[str]) -> set[str]:
    return {found[0] for each in requirements if (found := re.match(r"[\w-]+", each))}


@pytest.mark.design("U-1")
@pytest.mark.parametrize("folder", ["workers", "triggers", "accounting", "workflows", "ops", "tests"])
def test_each_part_has_its_folder(folder: str) -> None:
    assert (ROOT / folder / "__init__.py").is_file()


@pytest.mark.design("U-2")
def test_the_project_is_built_on_what_its_card_names() -> None:
    used, tools = names_of(PROJECT["dependencies"]), names_of(PROJECT["optional-dependencies"]["dev"])

    assert {"celery", "redis", "pydantic", "ag2", "prometheus-client", "croniter"} <= used
    assert "pytest" in tools


@pytest.mark.design("U-3")
def test_the_database_is_reached_through_pymongo() -> None:
    used = names_of(PROJECT["dependencies"])

    assert "pymongo" in used
    assert "motor" not in used
