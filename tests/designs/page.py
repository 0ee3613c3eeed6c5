"""The page `docs/designs.md`, made from the statements and the marks at the tests."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence

from tests.designs.marks import ROOT, Mark
from tests.designs.statements import Design, Statement, Tests

PAGE = ROOT / "docs" / "designs.md"
COMMAND = ".venv/bin/python -m tests.designs"
INTRODUCTION = f"""\
# The designs, statement by statement

Five designs, and the card that names the product, say what Unattended does. This page lists each of their statements, \
in their order, with the tests that hold it. Where two designs disagree, the one with the lower number wins.

{{abouts}}

The last column says how a statement stands:
- **a test**: it fails when the product no longer keeps the statement.
- **differs, because …**: the product keeps the statement's purpose in another way; tests beside it hold that way.
- **comes with …**: not built yet; named is the feature that brings it.
- **not for a headless product: …**: a matter of screens, advice to authors, or an inside of another runtime.

A script makes the page from `tests/designs/statements.yaml` and the marks `@pytest.mark.design` at the tests. \
After a change of either run `{COMMAND}`; a test fails until then.
"""
TOTALS = "| design | statements | held | differ | come later | not headless |\n|---|---|---|---|---|---|"
KINDS = ("held", "differs", "comes_with", "not_headless")


def page_of(designs: Sequence[Design], tests: Tests) -> str:
    """Writes the whole page, the same text for the same statements and marks."""
    abouts = "\n".join(f"- **{_heading(each)}**: {each.about}" for each in designs)
    parts = [INTRODUCTION.format(abouts=abouts), *_totals(designs)]
    for design in designs:
        parts += ["", f"## {_heading(design)}", "", "| id | statement | held by |", "|---|---|---|"]
        parts += _rows(design, tests)
    return "\n".join(parts) + "\n"


def _heading(design: Design) -> str:
    return f"{design.key}. {design.title}"


def _totals(designs: Sequence[Design]) -> Iterator[str]:
    yield TOTALS
    total: Counter[str] = Counter()
    for design in designs:
        counted = Counter((statement.reasons or ["held"])[0] for statement in design.statements)
        total += counted
        anchor = re.sub(r"[^\w\- ]", "", _heading(design).lower()).replace(" ", "-")
        yield _counts(f"[{_heading(design)}](#{anchor})", counted)
    yield _counts("all", total)


def _counts(name: str, counted: Counter[str]) -> str:
    return f"| {name} | {counted.total()} | {' | '.join(str(counted[kind]) for kind in KINDS)} |"


def _rows(design: Design, tests: Tests) -> Iterator[str]:
    section = ""
    for statement in design.statements:
        if statement.section != section:
            section = statement.section
            yield f"| | **{_cell(section)}** | |"
        held_by = _held_by(statement, tests.get(statement.id, ()))
        yield f"| {statement.id} | {_cell(statement.text)} | {held_by} |"


def _held_by(statement: Statement, tests: Sequence[Mark]) -> str:
    links = ", ".join(_link(test) for test in tests)
    if statement.differs:
        return f"differs, because {_cell(statement.differs)}{f': {links}' if links else ''}"
    if statement.comes_with:
        return f"comes with {_cell(statement.comes_with)}"
    if statement.not_headless:
        return f"not for a headless product: {_cell(statement.not_headless)}"
    return links


def _link(test: Mark) -> str:
    return f"[{test.test or test.path.rpartition('/')[2]}](../{test.path})"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
