"""The documents against the product: every link, command, setting, metric, test and example that they name."""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from urllib.parse import urlsplit

import click
import pytest
import yaml

from ops.cli.command import DeferredCommand
from ops.cli.main import cli
from ops.docs_settings import settings_table, with_table
from workers.settings import setting_fields, variable_name
from workflows.chat.providers.script import read_script
from workflows.models_file import read_models_file
from workflows.package.findings import Findings
from workflows.package.loader import load_package
from workflows.package.readers.triggers_reader import read_triggers

ROOT = Path(__file__).resolve().parents[3]
README = ROOT / "README.md"
README_MAX_LINES = 180
PAGES = sorted(
    [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), ROOT / "ops" / "runbook.md", ROOT / "benchmarks" / "README.md"]
)
# A page names no host but these: no package index, mirror or badge comes in unnoticed.
KNOWN_HOSTS = {"127.0.0.1", "localhost", "keepachangelog.com", "api.example.com", "rates.example.com"}
KNOWN_HOSTS |= {"flows.example.com", "prometheus.example.com"}
PACKAGE_FOLDERS = ("accounting", "workflows", "workers", "triggers", "ops")
# Files and folders of a reader's own.
READERS_FILES = {"flows/", "secrets/", "workflows/Morning/tools/read_numbers.py"}
READERS_FILES |= {"workflows.Refunds.tools.helper", "workflows._shared.helper"}


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block; `file` is what a comment `<!-- file: NAME -->` right before it says."""

    language: str
    text: str
    file: str | None


@cache
def read(page: Path) -> str:
    return page.read_text(encoding="utf-8")


@cache
def blocks(page: Path) -> tuple[Block, ...]:
    fenced = re.finditer(r"(?:<!-- file: (\S+) -->\n)?^```(\w*)\n(.*?)^```$", read(page), re.MULTILINE | re.DOTALL)
    return tuple(Block(match[2], match[3], match[1]) for match in fenced)


@cache
def prose(page: Path) -> str:
    return re.sub(r"^```.*?^```$", "", read(page), flags=re.MULTILINE | re.DOTALL)


def code_spans(page: Path) -> list[str]:
    return re.findall(r"`([^`\n]+)`", prose(page))


def shell_commands(page: Path) -> Iterator[list[str]]:
    for block in blocks(page):
        if block.language not in ("bash", "sh"):
            continue
        for line in block.text.replace("\\\n", " ").splitlines():
            if line.startswith(("unattended ", "make ")):
                yield shlex.split(line, comments=True)


def commands_in(page: Path, program: str) -> Iterator[list[str]]:
    yield from (words for words in shell_commands(page) if words[0] == program)
    yield from (span.split() for span in code_spans(page) if span.startswith(f"{program} "))


@cache
def paths() -> frozenset[str]:
    """Every file and folder of the repository's code and documents, from its root; folders end with a slash."""
    folders = [ROOT / name for name in (*PACKAGE_FOLDERS, "tests", "benchmarks", "docs")]
    found = [*folders, *ROOT.glob("*.py"), *(path for folder in folders for path in folder.rglob("*"))]
    return frozenset(f"/{path.relative_to(ROOT).as_posix()}{'/' * path.is_dir()}" for path in found)


def slug(heading: str) -> str:
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


def resolve_command(words: list[str]) -> tuple[click.Command, list[str]]:
    """The command that these words after `unattended` name, and its arguments."""
    command: click.Command = cli
    while isinstance(command, click.Group) and words and not words[0].startswith("-"):
        assert words[0] in command.commands, f"there is no command {words[0]}"
        found = command.commands[words[0]]
        command, words = found.load() if isinstance(found, DeferredCommand) else found, words[1:]
    return command, words


@pytest.fixture(params=PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def page(request: pytest.FixtureRequest) -> Path:
    path: Path = request.param
    return path


def test_relative_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", prose(page)):
        if target.startswith(("http://", "https://")):
            continue
        path, _, anchor = target.partition("#")
        linked = (page.parent / path).resolve() if path else page

        assert linked.exists(), target
        assert linked.is_relative_to(ROOT), f"{target} leaves the repository"
        if anchor:
            assert anchor in map(slug, re.findall(r"^#+ (.+)$", read(linked), re.MULTILINE)), target


def test_no_host_but_the_known_ones(page: Path) -> None:
    hosts = {urlsplit(each).hostname for each in re.findall(r"https?://[^\s)>\"'`]+", read(page))}

    assert hosts <= KNOWN_HOSTS


def test_commands_exist_with_their_options(page: Path) -> None:
    for words in commands_in(page, "unattended"):
        command, arguments = resolve_command(words[1:])
        if words in list(shell_commands(page)):
            command.make_context(command.name, arguments)  # raises for an unknown option or a missing argument
        else:
            known = {name for each in command.params for name in each.opts}
            assert {each for each in arguments if each.startswith("--")} <= known, words


def test_make_targets_exist(page: Path) -> None:
    targets = set(re.findall(r"^([a-z-]+):", read(ROOT / "Makefile"), re.MULTILINE))

    for words in commands_in(page, "make"):
        assert words[1] in targets, words


def test_tests_that_are_named_exist(page: Path) -> None:
    for path, name in re.findall(r"\b(tests/[\w/]+\.py)::(\w+)", read(page)):
        assert (ROOT / path).is_file(), path
        assert re.search(rf"^(async )?def {name}\(", read(ROOT / path), re.MULTILINE), f"{path}::{name}"


def test_files_folders_and_modules_that_are_named_exist(page: Path) -> None:
    for name in set(code_spans(page)) - READERS_FILES:
        if re.fullmatch(r"[\w.-]+(?:/[\w.-]+)*(?:/|\.py)", name):
            assert any(path.endswith(f"/{name}") for path in paths()), name
        elif re.fullmatch(rf"(?:{'|'.join(PACKAGE_FOLDERS)})(?:\.(?!ya?ml$|json$)\w+)+", name):
            module = f"/{name.replace('.', '/')}"
            assert {f"{module}.py", f"{module}/"} & paths(), name


def test_settings_that_are_named_exist(page: Path) -> None:
    known = {variable_name(each) for each in setting_fields()}

    assert set(re.findall(r"\bUNATTENDED_[A-Z_]+\b", read(page))) <= known


def test_metrics_that_are_named_exist(page: Path) -> None:
    named = {each.removesuffix("_total") for each in re.findall(r"\bunattended_[a-z_]+\b", read(page))}
    if not named:
        return
    code = "".join(read(each) for folder in PACKAGE_FOLDERS[2:] for each in (ROOT / folder).rglob("*.py"))

    assert {each for each in named if f'"{each}' not in code} == set()


def test_decisions_are_numbered_without_gaps() -> None:
    numbers = [int(each.name[:4]) for each in sorted((ROOT / "docs" / "decisions").glob("*.md"))]

    assert numbers[0] == 1
    assert all(after == before + 1 for before, after in pairwise(numbers))


def test_the_readme_is_short() -> None:
    assert len(read(README).splitlines()) <= README_MAX_LINES


def test_the_settings_table_is_current() -> None:
    assert with_table(read(README)) == read(README), "run: .venv/bin/python -m ops.docs_settings"
    assert len(settings_table().splitlines()) == len(setting_fields()) + 2


def test_the_quick_start_is_one_block_that_ci_can_run() -> None:
    _, mark, after = read(README).partition("<!-- quick-start -->\n")

    assert mark
    assert after.startswith("```bash\nmake demo\n```\n")


def test_the_readmes_triggers_can_be_read() -> None:
    entries = [each for block in blocks(README) if block.language == "yaml" for each in yaml.safe_load(block.text)]
    findings = Findings()

    read_triggers(entries, file="README.md", findings=findings)

    assert {each["type"] for each in entries} == {"schedule", "database_condition", "webhook", "form_submit"}
    assert findings.all == ()


def test_the_example_package_loads_as_documented(tmp_path: Path) -> None:
    package = tmp_path / "Refunds"
    for block in blocks(ROOT / "docs" / "package-format.md"):
        if block.file:
            (package / block.file).parent.mkdir(parents=True, exist_ok=True)
            (package / block.file).write_text(block.text, encoding="utf-8")

    loaded = load_package(package)
    models = read_models_file(package / "models.yaml")

    assert loaded.findings == ()
    assert (len(loaded.agents), len(loaded.tools), len(loaded.triggers)) == (2, 1, 6)
    assert set(models.models) == {"default", "local", "canned"}
    assert read_script(package / "answers.yaml").next_answer("Clerk", answered=1, failed=1)["text"] == "REFUND"


def test_no_page_holds_both_sides_of_a_merge() -> None:
    marked = {page.name for page in PAGES if re.search(r"^(?:<{7}|>{7}) ", read(page), re.MULTILINE)}

    assert marked == set()
