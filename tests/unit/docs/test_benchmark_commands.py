"""The benchmarks' commands, on the pages and in the scripts' own first lines, against the scripts' own parsers."""

import argparse
import ast
import re
import runpy
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import NoReturn

import pytest

from tests.unit.docs.test_docs import PAGES, ROOT, blocks, code_spans, read

BENCHMARKS = ROOT / "benchmarks"
NAMED = re.compile(r"(?P<python>\S*python3? )?(?P<folder>benchmarks/)?(?P<script>\w+\.py)\b(?P<rest>.*)")
OURS = re.compile(r"^\s*(from|import) (accounting|workflows|workers|triggers|ops)\b", re.MULTILINE)
IMPORTED = re.compile(r"^\s*(?:from|import) (\w+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Usage:
    place: str
    script: str
    arguments: tuple[str, ...]
    command: bool  # to be typed as it stands; else a mention of some of its options

    def __str__(self) -> str:
        how = "command" if self.command else "mention"
        return f"{self.place}: {how} {self.script} {' '.join(self.arguments)}"


class ParserFoundError(Exception):
    def __init__(self, parser: argparse.ArgumentParser) -> None:
        super().__init__()
        self.parser = parser


@cache
def parser_of(script: str) -> argparse.ArgumentParser | None:
    """Of a script that has one: started as a user would, and stopped where it has read what it was told."""
    if "argparse" not in read(BENCHMARKS / script):
        return None

    def found(parser: argparse.ArgumentParser, *_: object) -> NoReturn:
        raise ParserFoundError(parser)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(argparse.ArgumentParser, "parse_args", found)
        with pytest.raises(ParserFoundError) as stopped:
            runpy.run_path(str(BENCHMARKS / script), run_name="__main__")
    return stopped.value.parser


def usages() -> Iterator[Usage]:
    for page in PAGES:
        place = str(page.relative_to(ROOT))
        last = ""
        lines = [line.strip() for block in blocks(page) for line in block.text.splitlines()]
        for text in [*code_spans(page), *lines]:
            usage = _usage(place, text)
            if usage is not None:
                last = usage.script
                yield usage
            elif text.startswith("--") and last and page.parent == BENCHMARKS:
                yield Usage(place, last, tuple(text.split()), command=False)
    for script in sorted(BENCHMARKS.glob("*.py")):
        said = (ast.get_docstring(ast.parse(read(script))) or "").splitlines()
        # Square brackets are around what may be left out.
        found = (_usage(script.name, re.sub(r"[\[\]]|\.\.\.", "", line.strip())) for line in said if "python " in line)
        yield from filter(None, found)


def _usage(place: str, text: str) -> Usage | None:
    match = NAMED.fullmatch(text)
    if match is None or not (match["folder"] or (BENCHMARKS / match["script"]).is_file()):
        return None
    arguments = tuple(shlex.split(match["rest"], comments=True))
    return Usage(place, match["script"], arguments, command=match["python"] is not None)


USAGES = tuple(dict.fromkeys(usages()))


@pytest.mark.parametrize("usage", USAGES, ids=str)
def test_a_benchmark_takes_the_documented_arguments(usage: Usage) -> None:
    assert (BENCHMARKS / usage.script).is_file()
    parser = parser_of(usage.script)

    if parser is None:
        takes_any = "sys.argv" in read(BENCHMARKS / usage.script)
        assert not usage.arguments or takes_any
        assert not [each for each in usage.arguments if each.startswith("-")]
    elif usage.command:
        parser.parse_args(usage.arguments)  # SystemExit, and a line on stderr, for what it does not know
    else:
        assert {each for each in usage.arguments if each.startswith("--")} <= parser._option_string_actions.keys()


def test_every_benchmark_with_a_parser_is_on_its_page() -> None:
    commands = {each.script for each in USAGES if each.command and each.place == "benchmarks/README.md"}

    assert {each.name for each in BENCHMARKS.glob("*.py") if "argparse" in read(each)} <= commands


@pytest.mark.parametrize("script", sorted(path.name for path in BENCHMARKS.glob("*.py")))
def test_no_benchmark_takes_a_file_beside_it_for_one_of_our_packages(script: str) -> None:
    """`accounting.py` and `triggers.py` lie there, in the folder that Python would look into first."""
    text = read(BENCHMARKS / script)
    starts_ours = '__name__ == "__main__"' in text and any(OURS.search(read(path)) for path in with_siblings(script))
    before, put_last, _ = text.partition("sys.path.sort(key=lambda place: Path(place).resolve() ==")

    assert not starts_ours or (put_last and not OURS.search(before))


def with_siblings(script: str) -> set[Path]:
    """It, and the files beside it that it imports, at its beginning or later."""
    found: set[Path] = set()
    waiting = [BENCHMARKS / script]
    while waiting:
        path = waiting.pop()
        if path.is_file() and path not in found:
            found.add(path)
            waiting += [BENCHMARKS / f"{name}.py" for name in IMPORTED.findall(read(path))]
    return found
