"""Incidents: the record of an error in the package's own code."""

import json
from pathlib import Path

import pytest

from tests.unit.workflows.chats import Chat, build_chat
from tests.unit.workflows.packages import load, write_tool
from workflows.chat.chat_errors import PackageDefect
from workflows.chat.package_code.incidents import MAX_MESSAGE, MAX_TRACEBACK, Incident, make_incident
from workflows.chat.package_code.package_modules import PackageModules
from workflows.context.redaction import HIDDEN, Redactor

SECRET = "secret-value-9b1c"
HIDING = Redactor([SECRET])


def catch_incident(error: BaseException) -> Incident:
    try:
        raise error
    except BaseException as raised:  # noqa: BLE001 -- whatever it is
        return make_incident(raised, where="tool look", agent="A", turn=2)


def test_an_incident_has_its_place_and_its_event() -> None:
    incident = catch_incident(ValueError("no")).redacted(HIDING.redact_text)

    assert (incident.where, incident.type, incident.message) == ("tool look", "ValueError", "no")
    assert (incident.agent, incident.turn) == ("A", 2)
    assert incident.traceback.endswith("ValueError: no\n")
    assert Incident.from_document(json.loads(json.dumps(incident.as_document()))) == incident


@pytest.mark.parametrize("before", range(MAX_MESSAGE - len(SECRET), MAX_MESSAGE + 1, 4))
def test_a_hidden_value_is_taken_out_before_the_message_is_cut(before: int) -> None:
    incident = catch_incident(ValueError("x" * before + SECRET)).redacted(HIDING.redact_text)

    assert "secret" not in incident.message
    assert len(incident.message) <= MAX_MESSAGE


@pytest.mark.parametrize("after", range(MAX_TRACEBACK - len(SECRET) - 1, MAX_TRACEBACK, 4))
def test_a_hidden_value_is_taken_out_before_the_traceback_is_cut(after: int) -> None:
    incident = catch_incident(ValueError(SECRET + "x" * after)).redacted(HIDING.redact_text)

    assert "9b1c" not in incident.traceback
    assert len(incident.traceback) <= MAX_TRACEBACK + 2


def test_hidden_values_in_a_chain_of_errors_are_taken_out() -> None:
    try:
        try:
            raise KeyError(SECRET)
        except KeyError as first:
            raise type(SECRET, (ValueError,), {})("then") from first
    except ValueError as error:
        incident = make_incident(error, where=SECRET).redacted(HIDING.redact_text)

    assert SECRET not in str(incident)
    assert (incident.where, incident.type) == (HIDDEN, HIDDEN)


class BrokenError(Exception):
    def __str__(self) -> str:
        raise OSError


def test_what_no_store_takes_is_replaced() -> None:
    incident = catch_incident(ValueError("half \ud83d")).redacted(HIDING.redact_text)

    assert incident.message == "half ?"
    incident.traceback.encode()
    assert catch_incident(BrokenError()).redacted(HIDING.redact_text).message == "(its text cannot be read)"


READS = "import os\n\ndef t():\n    return os.environ['SLACK_WEBHOOK_URL']\n"
RAISES_AGAIN = """import json
def t():
    try:
        json.loads('{')
    except ValueError as error:
        raise OSError from error
"""
AWAITS = "import asyncio\nasync def t(): await asyncio.wait_for(later(), 1)\nasync def later():\n    {}['x']\n"
SLOW = "import asyncio\nasync def t(): await asyncio.sleep(9)\n"
MADE = "def t():\n    exec(compile('1 / 0', 'x.py', 'exec'), globals())\n"
SOURCES = {
    "in a library": ("t.py", READS, "tools/t.py:4, in t"),
    "in a helper": ("t.py", "from .deep.helper import go\ndef t(): go()\n", "tools/deep/helper.py:2, in go"),
    "in a shared file": ("t.py", "from _shared.common import go\ndef t(): go()\n", "_shared/common.py:2, in go"),
    "in a folder's init": ("t.py", "from .deep import go\ndef t(): go()\n", "tools/deep/__init__.py:1, in go"),
    "raised for another": ("t.py", RAISES_AGAIN, "tools/t.py:6, in t"),
    "in a coroutine": ("t.py", AWAITS, "tools/t.py:4, in later"),
    "an iterator's end": ("t.py", "def t():\n    next(iter([]))\n", "tools/t.py:2, in t"),
    "with a dot in its name": ("t.v2.py", "def t(): 1 / 0\n", "tools/t.v2.py:1, in t"),
    "nowhere": ("t.py", SLOW, None),
    "in code that it made": ("t.py", MADE, "tools/t.py:2, in t"),
    "in a module that hides its name": ("t.py", "__name__ = 7\ndef t(): 1 / 0\n", None),
}


@pytest.mark.parametrize(("file", "source", "place"), SOURCES.values(), ids=SOURCES.keys())
async def test_the_place_is_the_innermost_line_of_the_packages_own_files(
    tmp_path: Path, file: str, source: str, place: str | None
) -> None:
    folder = tmp_path / "P"
    write_tool(folder, file, source)
    write_tool(folder, "deep/helper.py", "def go():\n    int('one')\n")
    write_tool(folder, "deep/__init__.py", "def go(): raise OSError\n")
    (tmp_path / "_shared").mkdir()
    (tmp_path / "_shared" / "common.py").write_text("def go():\n    int('one')\n")
    package = load(folder, tools=[{"agent": "A", "file": file, "function": "t", "timeout_s": 0.2}])

    calling = {"answers": {"A": [{"tool_calls": [{"name": "t"}]}, {"text": "went on"}]}}
    _, kept = await Chat(build_chat(package, calling, folder)).run()

    [incident] = kept.turn(1).errors
    assert incident.place == place


def test_code_of_no_package_has_no_place() -> None:
    assert catch_incident(ValueError("no")).place is None


def test_an_error_while_a_file_is_loaded_names_its_line(tmp_path: Path) -> None:
    write_tool(tmp_path, "t.py", "import os\n\nKEY = os.environ['NO_SUCH_KEY']\ndef t(): ...\n")
    package = load(tmp_path, tools=[{"agent": "A", "file": "t.py", "function": "t"}])

    with pytest.raises(
        PackageDefect, match=r"t\.py failed when it was loaded: KeyError: 'NO_SUCH_KEY' \(tools/t\.py:3\)"
    ):
        PackageModules(package).load_function(package.tools[0].file, "t")
