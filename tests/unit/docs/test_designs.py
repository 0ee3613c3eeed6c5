"""docs/designs.md: made from the statements and the marks of today, and no statement without a test or a reason."""

from pathlib import Path

import pytest

from tests.designs.marks import Mark, marks_of, read_marks
from tests.designs.page import COMMAND, PAGE, page_of
from tests.designs.statements import Design, Statement, Tests, group_marks, problems_of, read_designs

FEATURES = {
    "action plans",
    "agent selection",
    "context assembly and retrieval",
    "context providers",
    "failure chains and compensation",
    "live events of a run",
}


@pytest.fixture(scope="module")
def tests() -> Tests:
    return group_marks(read_marks())


def test_every_statement_has_a_test_or_exactly_one_reason(tests: Tests) -> None:
    assert problems_of(read_designs(), tests) == []


def test_the_page_is_what_the_script_makes(tests: Tests) -> None:
    assert PAGE.read_text(encoding="utf-8") == page_of(read_designs(), tests), f"run: {COMMAND}"


def test_what_is_to_come_is_a_known_feature() -> None:
    statements = [statement for design in read_designs() for statement in design.statements]

    assert {statement.comes_with for statement in statements} - {""} <= FEATURES


MARKED = """
import pytest

pytestmark = [pytest.mark.integration, pytest.mark.design("D1-1")]
CASES = [1, 2]

@pytest.mark.design("D1-2", "D1-3")
def test_plain(): ...

@pytest.mark.parametrize("x", [1, pytest.param(2, marks=pytest.mark.design("D1-5"))])
@pytest.mark.design("D1-4")
async def test_cases(x): ...

@pytest.mark.design("D1-6")
class TestMany:
    @pytest.mark.design("D1-7")
    def test_one(self): ...
"""


def test_marks_are_found_wherever_pytest_takes_them(tmp_path: Path) -> None:
    file = tmp_path / "test_x.py"
    file.write_text(MARKED, encoding="utf-8")

    assert {(mark.test, mark.statement) for mark in marks_of(file, "tests/test_x.py")} == {
        ("", "D1-1"),
        ("test_plain", "D1-2"),
        ("test_plain", "D1-3"),
        ("test_cases", "D1-4"),
        ("test_cases", "D1-5"),
        ("TestMany", "D1-6"),
        ("TestMany::test_one", "D1-7"),
    }


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('@pytest.mark.design("D1-1")\ndef helper(): ...\n', "tests/x.py:1: a mark stands on a test"),
        (
            'CASES = [\n    pytest.param(1, marks=pytest.mark.design("D1-1"))\n]\n',
            "tests/x.py:2: a mark stands on a test",
        ),
        ("@pytest.mark.design()\ndef test_x(): ...\n", "tests/x.py:1: a mark names statements"),
        ("@pytest.mark.design(ID)\ndef test_x(): ...\n", "tests/x.py:1: a mark names its statements as plain texts"),
    ],
)
def test_a_mark_that_holds_nothing_is_refused(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "test_x.py"
    file.write_text(text, encoding="utf-8")

    with pytest.raises(ValueError, match=said):
        marks_of(file, "tests/x.py")


def statement(number: int, **reasons: str) -> Statement:
    return Statement(id=f"D1-{number}", section="S", text="It is so.", **reasons)


def statement_tests(*names: str) -> Tests:
    return group_marks([Mark("tests/test_x.py", "test_y", name) for name in names])


@pytest.mark.parametrize(
    ("statements", "tests", "said"),
    [
        ([statement(1)], statement_tests(), "D1-1 has neither a test nor a reason"),
        ([statement(1, differs="x", comes_with="y")], statement_tests(), "D1-1 has several reasons"),
        ([statement(1, comes_with="x")], statement_tests("D1-1"), "D1-1 says comes_with"),
        ([statement(1, not_headless="x")], statement_tests("D1-1"), "D1-1 says not_headless"),
        ([statement(1)], statement_tests("D1-1", "D1-2"), "tests/test_x.py::test_y names D1-2"),
        ([statement(2), statement(1)], statement_tests("D1-1", "D1-2"), "D1-2 is out of order"),
        ([statement(1), statement(1)], statement_tests("D1-1"), "D1-1 stands twice"),
    ],
)
def test_a_contradiction_is_named_with_what_to_do(statements: list[Statement], tests: Tests, said: str) -> None:
    [problem] = problems_of([Design("D1", "T", "A", tuple(statements))], tests)

    assert problem.startswith(said)


def test_what_differs_may_have_tests_and_needs_none() -> None:
    design = Design("D1", "T", "A", (statement(1, differs="x"), statement(2, differs="x")))

    assert problems_of([design], statement_tests("D1-1")) == []
