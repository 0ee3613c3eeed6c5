"""Writes `docs/designs.md`: `.venv/bin/python -m tests.designs`."""

from tests.designs.marks import read_marks
from tests.designs.page import PAGE, page_of
from tests.designs.statements import group_marks, problems_of, read_designs


def main() -> None:
    designs, tests = read_designs(), group_marks(read_marks())
    if problems := problems_of(designs, tests):
        raise SystemExit("\n".join(problems))
    PAGE.write_text(page_of(designs, tests), encoding="utf-8")


if __name__ == "__main__":
    main()
