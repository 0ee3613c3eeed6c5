"""The documents against the source: log lines, fields and other words of the code that the pages name.

A snake_case word in backticks is a name, or a whole text constant, in one of the five packages. What a page calls a
log line is logged somewhere: a renamed event would send whoever reads the runbook looking for what never comes.
"""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import pytest

from tests.unit.docs.test_docs import PACKAGE_FOLDERS, PAGES, ROOT, code_spans, prose, read

WORD = re.compile(r"[a-z][a-z0-9]*(?:_[a-z0-9]+)+")
NAMED_IN_PROSE = re.compile(r"\b[Ll]ogs?(?: line)?(?: says| has)? `([a-z_]+)`|`([a-z_]+)` in (?:the|its) log\b")
TABLE_OF_LOG_LINES = re.compile(r"^\| log line \|.*\n(?:\|.*\n)*", re.MULTILINE)
FIRST_CELL = re.compile(r"^\| `(\w+)` \|", re.MULTILINE)
# Words of others: prometheus-client, RabbitMQ, model providers; and those that the code puts together from names.
NOT_OURS = {"process_resident_memory_bytes", "consumer_timeout"}
NOT_OURS |= {"cached_tokens", "eval_count", "prompt_eval_count", "num_predict"}
NOT_OURS |= {"resume_after", "start_after", "start_at_operation_time", "full_document_before_change"}  # PyMongo's
NOT_OURS |= {"beat_schedule", "beat_cron_starting_deadline", "last_run_at", "total_run_count"}  # Celery's, and below
NOT_OURS |= {"autoretry_for", "max_retries", "acks_late", "visibility_timeout", "one_off"}
NOT_OURS |= {"transfer_to_user", "transfer_to_terminate", "transfer_to_terminate_2", "phase_plan"}


@dataclass(slots=True)
class Source:
    names: set[str] = field(default_factory=set)
    texts: set[str] = field(default_factory=set)
    events: set[str] = field(default_factory=set)

    def read(self, file: Path) -> None:
        nodes = list(ast.walk(ast.parse(read(file))))
        texts = {each for node in nodes for each in texts_in(node)}
        self.texts |= texts
        self.names |= {name for node in nodes for name in names_of(node)}
        for event in filter(None, map(logged_event, nodes)):
            # Where the event is a variable, its value is one of the module's texts.
            self.events |= {text for each in ast.walk(event) for text in texts_in(each)} or texts


def texts_in(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value


def names_of(node: ast.AST) -> Iterator[str]:
    for attribute in {"id", "attr", "arg", "name"}.intersection(node._fields):
        name = getattr(node, attribute)
        if isinstance(name, str):
            yield name


def logged_event(node: ast.AST) -> ast.expr | None:
    """The first argument of a call such as log.warning(…)."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or not node.args:
        return None
    logger = node.func.value
    return node.args[0] if isinstance(logger, ast.Name) and logger.id in ("log", "logger") else None


@cache
def source() -> Source:
    source = Source()
    for file in (each for folder in PACKAGE_FOLDERS for each in (ROOT / folder).rglob("*.py")):
        source.read(file)
    return source


@cache
def names_of_tests() -> frozenset[str]:
    return frozenset(
        name
        for file in (ROOT / "tests").rglob("test_*.py")
        for name in re.findall(r"^(?:async )?def (\w+)", read(file), re.MULTILINE)
    )


def named_log_lines(page: Path) -> set[str]:
    in_tables = {name for table in TABLE_OF_LOG_LINES.findall(read(page)) for name in FIRST_CELL.findall(table)}
    return in_tables | {name for pair in NAMED_IN_PROSE.findall(prose(page)) for name in pair if name}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_words_of_the_code_stand_in_it(page: Path) -> None:
    words = {each for each in code_spans(page) if WORD.fullmatch(each)}
    ours = {each for each in words - NOT_OURS if not each.startswith("unattended_")}  # metrics have a test of their own

    assert ours - source().names - source().texts - names_of_tests() == set()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_log_lines_that_are_named_are_logged(page: Path) -> None:
    assert named_log_lines(page) - source().events == set()


def test_log_lines_are_found_in_prose_and_in_tables() -> None:
    found = named_log_lines(ROOT / "ops" / "runbook.md")

    assert {"worker_ready", "wakeups_left_to_reconciler", "event_too_large", "context_value_missing"} <= found
    assert len(found) >= 12
