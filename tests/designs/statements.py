"""The statements of the designs, as `statements.yaml` has them, and what is wrong with them and the marks."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.designs.marks import Mark

FILE = Path(__file__).with_name("statements.yaml")
NAME = "tests/designs/statements.yaml"

Tests = Mapping[str, Sequence[Mark]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """A sentence of a design; at most one reason says why it is not held as it is written."""

    id: str
    section: str
    text: str
    differs: str = ""
    comes_with: str = ""
    not_headless: str = ""

    @property
    def reasons(self) -> list[str]:
        return [name for name in ("differs", "comes_with", "not_headless") if getattr(self, name)]


@dataclass(frozen=True, slots=True)
class Design:
    key: str
    title: str
    about: str
    statements: tuple[Statement, ...]


def read_designs(file: Path = FILE) -> list[Design]:
    """Reads the designs in order; an unknown field of a statement is a TypeError."""
    return [_design(each) for each in yaml.safe_load(file.read_text(encoding="utf-8"))]


def _design(written: Mapping[str, Any]) -> Design:
    statements = (
        Statement(section=section["heading"], **statement)
        for section in written["sections"]
        for statement in section["statements"]
    )
    return Design(written["design"], written["title"], written["about"], tuple(statements))


def group_marks(marks: Sequence[Mark]) -> dict[str, list[Mark]]:
    """Groups marks by statement, the fast tests of each first."""
    tests: dict[str, list[Mark]] = defaultdict(list)
    for mark in sorted(marks, key=lambda mark: (not mark.path.startswith("tests/unit/"), mark)):
        tests[mark.statement].append(mark)
    return dict(tests)


def problems_of(designs: Sequence[Design], tests: Tests) -> list[str]:
    """Lists what contradicts itself, each with what to do about it."""
    statements = [statement for design in designs for statement in design.statements]
    known = {statement.id for statement in statements}
    unknown = [
        f"{mark.path}::{mark.test} names {mark.statement}, which {NAME} does not have"
        for name in sorted(tests.keys() - known)
        for mark in tests[name]
    ]
    return [
        *(problem for design in designs for problem in _misnumbered(design)),
        *(problem for statement in statements for problem in _contradictions(statement, tests.get(statement.id, ()))),
        *unknown,
    ]


def _misnumbered(design: Design) -> Iterator[str]:
    expected = [f"{design.key}-{number}" for number in range(1, len(design.statements) + 1)]
    written = [statement.id for statement in design.statements]
    yield from (f"{name} stands twice in {NAME}" for name, count in Counter(written).items() if count > 1)
    if written != expected and len(set(written)) == len(written):
        first = next(have for have, want in zip(written, expected, strict=True) if have != want)
        yield f"{first} is out of order in {NAME}: the statements of {design.key} are numbered 1, 2, 3 …"


def _contradictions(statement: Statement, tests: Sequence[Mark]) -> Iterator[str]:
    reasons = statement.reasons
    if len(reasons) > 1:
        yield f"{statement.id} has several reasons in {NAME} ({', '.join(reasons)}): keep one"
    if not reasons and not tests:
        yield (
            f'{statement.id} has neither a test nor a reason: put @pytest.mark.design("{statement.id}") on the test '
            f"that holds it, or a reason (differs, comes_with or not_headless) into {NAME}"
        )
    if tests and set(reasons) - {"differs"}:
        held = ", ".join(f"{test.path}::{test.test}" for test in tests)
        yield f"{statement.id} says {reasons[0]} in {NAME}, but {held} holds it: remove the reason or the mark"
