"""Logs: one event per line, in both formats."""

import asyncio
import json
import logging
import re
import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.logs import (
    ConsoleFormatter,
    EventFormatter,
    JsonFormatter,
    configure_logging,
    log_context,
    redact_logs,
    redact_streams,
)
from workflows.context.redaction import Redactor

FORMATTERS: list[Callable[[str], logging.Formatter]] = [ConsoleFormatter, JsonFormatter]


@pytest.fixture(autouse=True)
def restored_logging(monkeypatch: pytest.MonkeyPatch) -> None:
    """Restores the logging configuration of the process."""
    monkeypatch.setattr(threading, "excepthook", threading.excepthook)


def record(event: str = "run_claimed", *args: Any, exc_info: Any = None, **extra: Any) -> logging.LogRecord:
    made = logging.LogRecord("workers.engine", logging.INFO, __file__, 1, event, args, exc_info)
    made.created = 1_770_000_000.123
    vars(made).update(extra)
    return made


def test_a_console_line_has_time_role_level_event_and_fields() -> None:
    line = ConsoleFormatter("worker").format(record(run_id="run_1", turn=2, why="all done", tags=["a"], none=None))
    start = "02:40:00.123 worker    info    run_claimed"
    assert line == f'{start} run_id=run_1 turn=2 why="all done" tags=["a"] none=null'


@pytest.mark.parametrize("formatter", FORMATTERS)
def test_a_line_has_its_context_and_its_own_fields_come_first(
    formatter: Callable[[str], logging.Formatter],
) -> None:
    with log_context(run_id="run_1", attempt=1), log_context(span_id="ab"):
        line = formatter("worker").format(record(attempt=2))
    after = formatter("worker").format(record())

    assert re.findall(r"(run_id|attempt|span_id)\W+(\w+)", line) == [
        ("run_id", "run_1"),
        ("attempt", "2"),
        ("span_id", "ab"),
    ]
    assert "run_1" not in after


async def test_what_a_tool_does_in_a_thread_or_a_task_is_about_its_run() -> None:
    def log_once() -> str:
        return JsonFormatter("worker").format(record())

    async def in_a_task() -> str:
        return log_once()

    with log_context(run_id="run_1"):
        lines = [await asyncio.to_thread(log_once), await asyncio.create_task(in_a_task())]

    assert [json.loads(line)["run_id"] for line in lines] == ["run_1", "run_1"]


def test_a_json_line_has_the_same_as_fields() -> None:
    line = json.loads(JsonFormatter("worker").format(record(run_id="run_1", turn=2, tags=["ä"])))
    assert line == {
        "time": "2026-02-02T02:40:00.123000+00:00",
        "level": "info",
        "role": "worker",
        "event": "run_claimed",
        "run_id": "run_1",
        "turn": 2,
        "tags": ["ä"],
    }


values = st.one_of(
    st.text(st.characters(codec="utf-8")),
    st.integers(),
    st.floats(),
    st.none(),
    st.binary(),
    st.lists(st.text()),
    st.builds(object),
)


@pytest.mark.parametrize("formatter", FORMATTERS)
@given(values, st.text(st.characters(codec="utf-8")))
def test_any_value_stays_on_one_line(formatter: Callable[[str], logging.Formatter], value: Any, event: str) -> None:
    line = formatter("gateway").format(record("%s", event, value=value))

    assert "\n" not in line
    assert "\r" not in line


def test_what_steers_a_terminal_does_not_reach_it() -> None:
    line = ConsoleFormatter("gateway").format(record(path="/x\x1b[2J\x07", name_="a\u2028b\x85c"))
    assert line.isprintable()


def test_a_long_value_is_cut_on_the_console_and_whole_in_json() -> None:
    long = record(why="x" * 1000)

    assert len(ConsoleFormatter("w").format(long)) < 450
    assert "(1000 characters)" in ConsoleFormatter("w").format(long)
    assert json.loads(JsonFormatter("w").format(long))["why"] == "x" * 1000


def failure() -> Any:
    try:
        raise ValueError("no such order")
    except ValueError:
        return sys.exc_info()


def test_a_traceback_follows_on_the_console_and_is_a_field_in_json() -> None:
    failed = record("run_crashed", exc_info=failure())

    console, parsed = ConsoleFormatter("w").format(failed), json.loads(JsonFormatter("w").format(failed))

    assert console.splitlines()[0].endswith("run_crashed")
    assert console.splitlines()[-1] == "ValueError: no such order"
    assert parsed["exception"].endswith("ValueError: no such order")


@pytest.mark.parametrize(("log_format", "first"), [("json", "{"), ("console", "0")])
def test_lines_go_to_stderr_and_only_from_the_asked_level_on(
    log_format: str, first: str, capsys: pytest.CaptureFixture[str]
) -> None:
    root = logging.getLogger()
    before = (root.level, list(root.handlers))
    try:
        configure_logging(role="worker", log_format=log_format, log_level="warning")
        logging.getLogger("workers.x").warning("lease_lost", extra={"run_id": "run_1"})
        logging.getLogger("workers.x").info("quiet")
        logging.getLogger("celery.worker").info("A sentence of Celery's")
    finally:
        root.handlers[:] = before[1]
        root.setLevel(before[0])

    captured = capsys.readouterr()
    assert captured.out == ""
    assert len(captured.err.splitlines()) == 1
    assert "lease_lost" in captured.err
    assert captured.err[0] in first + "12"


def test_a_long_field_is_cut_in_json_as_well() -> None:
    record = logging.makeLogRecord({"msg": "package_refused", "levelno": logging.ERROR, "findings": ["x" * 9_000]})

    line = json.loads(JsonFormatter("worker").format(record))

    assert len(line["findings"]) < 2_100
    assert line["findings"].endswith("characters)")


CANARY = 'canary "7f3a"\nsecond line'
HIDDEN = "(hidden)"


def raised_error(text: str) -> Any:
    try:
        raise ValueError(text)
    except ValueError:
        return sys.exc_info()


class SecretHolder:
    def __repr__(self) -> str:
        return f"holds {CANARY}"


@pytest.mark.design("D1-57")
@pytest.mark.parametrize("formatter", [ConsoleFormatter, JsonFormatter])
@pytest.mark.parametrize(
    "failed",
    [
        record(f"a sentence with {CANARY} in it"),
        record("a sentence with %s in it", CANARY),
        record("event", why=CANARY),
        record("event", why={"nested": [CANARY], CANARY: 1}),
        record("event", why=SecretHolder()),
        record("event", why=[SecretHolder()]),
        record("event", exc_info=raised_error(f"it was {CANARY}!")),
        record("event", why=json.dumps({"as": CANARY})),
        record("event", why=repr(CANARY)),
    ],
    ids=[
        "message",
        "arguments",
        "field",
        "nested",
        "object",
        "objects",
        "traceback",
        "json",
        "repr",
    ],
)
def test_a_hidden_value_is_in_no_line(formatter: type[EventFormatter], failed: logging.LogRecord) -> None:
    plain, hiding = formatter("worker"), formatter("worker")
    hiding.redactor = Redactor([CANARY])

    assert "canary" in plain.format(failed)
    assert HIDDEN in hiding.format(failed)
    for part in ("canary", "7f3a", "second line"):
        assert part not in hiding.format(failed)


@pytest.mark.parametrize(("formatter", "shown"), [(ConsoleFormatter, 300), (JsonFormatter, 2_000)])
def test_no_part_of_a_hidden_value_is_left_where_a_field_is_cut(formatter: type[EventFormatter], shown: int) -> None:
    plain, hiding = formatter("worker"), formatter("worker")
    hiding.redactor = Redactor([CANARY])
    long = record("event", why="x" * (shown - 5) + CANARY)

    assert "xcanar…" in plain.format(long)
    assert "canar" not in hiding.format(long)


def test_a_failing_background_thread_is_logged(capsys: pytest.CaptureFixture[str]) -> None:
    root = logging.getLogger()
    before = (root.level, list(root.handlers))
    try:
        configure_logging(role="worker", log_format="json", log_level="info")
        redact_logs(Redactor(["canary-7f3a"]))
        thread = threading.Thread(target=int, args=["canary-7f3a"], name="left behind")
        thread.start()
        thread.join()
    finally:
        root.handlers[:] = before[1]
        root.setLevel(before[0])

    [line] = map(json.loads, capsys.readouterr().err.splitlines())
    assert (line["event"], line["thread_name"]) == ("thread_failed", "left behind")
    assert "ValueError: invalid literal for int() with base 10: '(hidden)'" in line["exception"]


def test_values_known_later_are_hidden_by_earlier_configured_loggers(
    capsys: pytest.CaptureFixture[str],
) -> None:
    root = logging.getLogger()
    before = (root.level, list(root.handlers))
    redactor = Redactor()
    try:
        configure_logging(role="worker", log_format="json", log_level="info")
        redact_logs(redactor)
        redactor.hide(["canary-7f3a"])
        logging.getLogger("a.library").warning("the answer is canary-7f3a")
    finally:
        root.handlers[:] = before[1]
        root.setLevel(before[0])

    assert json.loads(capsys.readouterr().err)["event"] == f"the answer is {HIDDEN}"


def test_what_is_printed_is_hidden_and_the_streams_are_restored(capsys: pytest.CaptureFixture[str]) -> None:
    out, err = sys.stdout, sys.stderr
    with redact_streams(Redactor(["canary-7f3a"])):
        print("it is canary-7f3a")  # noqa: T201 -- as a tool prints
        sys.stderr.writelines(["canary-7f3a\n", "and more\n"])
        assert sys.stdout.isatty() is out.isatty()

    assert (sys.stdout, sys.stderr) == (out, err)
    assert capsys.readouterr() == (f"it is {HIDDEN}\n", f"{HIDDEN}\nand more\n")
