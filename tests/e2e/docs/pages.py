"""The pages of the documentation and their shell blocks, with the comments right above a block.

| comment | meaning |
|---|---|
| `<!-- not-run: needs Docker -->` | the block is not run, with the reason |
| `<!-- quick-start -->` | CI runs the block before anything else |
| `<!-- expect: 1 -->` | the block exits with this code instead of 0 |
| `<!-- shows: succeeded -->` | the block is repeated until its output has this text |
| `<!-- answered: y -->` | the block prompts, and this is typed |
| `<!-- given: RUN_ID=succeeded -->` | the word is replaced: here by the id of a run in this state |
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from tests.unit.docs.test_docs import ROOT

SHELLS = ("bash", "sh", "shell", "console", "zsh")
MARKS = ("not-run", "quick-start", "expect", "shows", "answered", "given")
README = ROOT / "README.md"
GUIDE = ROOT / "docs" / "getting-started.md"
ISSUES = ROOT / "docs" / "recipes" / "github-issue-triage.md"
START = "unattended up"
# Pages that start the product share one, in ~/flows, after the blocks before their starts.
STARTING = (README, GUIDE, ISSUES)
AFTER_GUIDE = (*sorted((ROOT / "docs" / "recipes").glob("*.md")), *sorted((ROOT / "docs").glob("migrating-*.md")))
PAGES = (README, ROOT / "CONTRIBUTING.md", ROOT / "ops" / "runbook.md", *sorted((ROOT / "docs").rglob("*.md")))
_COMMENT = r"(?: *<!--[^\n]*-->\n+)"
_FENCED = re.compile(
    rf"(?P<comments>{_COMMENT}*)^(?P<indent> *)```(?P<language>\w*)[^\n]*\n(?P<text>.*?)^ *```$",
    re.MULTILINE | re.DOTALL,
)
_MARK = re.compile(r"<!-- ([a-z-]+)(?:: (.+?))? -->")


@dataclass(frozen=True, slots=True)
class Block:
    page: Path
    line: int
    language: str
    text: str
    marks: tuple[tuple[str, str], ...]

    def mark(self, name: str) -> str | None:
        return next((value for key, value in self.marks if key == name), None)

    @property
    def is_run(self) -> bool:
        """Whether a block runs here; others have a reason, or run elsewhere."""
        return self.mark("not-run") is None and self.mark("quick-start") is None

    @property
    def place(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"

    @property
    def given_words(self) -> Iterator[tuple[str, str]]:
        for name, value in self.marks:
            if name == "given":
                word, _, what = value.partition("=")
                yield word, what


@cache
def blocks_of(page: Path) -> tuple[Block, ...]:
    return tuple(_blocks(page))


def _blocks(page: Path) -> Iterator[Block]:
    text = page.read_text(encoding="utf-8")
    for found in _FENCED.finditer(text):
        indent = len(found["indent"])
        body = "".join(line[indent:] or "\n" for line in found["text"].splitlines(keepends=True))
        marks = tuple(_MARK.findall(found["comments"]))
        yield Block(page, text.count("\n", 0, found.start("language")) + 1, found["language"], body, marks)


def shell_blocks(page: Path) -> list[Block]:
    return [each for each in blocks_of(page) if each.language in SHELLS]


def around_start(page: Path) -> tuple[list[Block], list[Block]]:
    """Split a page's blocks at `unattended up`; without it all blocks are after."""
    blocks = [each for each in shell_blocks(page) if each.is_run]
    for number, block in enumerate(blocks):
        before, found, after = block.text.strip().rpartition(START)
        if found and not after:
            return [*blocks[:number], replace(block, text=before)], blocks[number + 1 :]
    return [], blocks
