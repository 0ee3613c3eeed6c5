"""The context sanitizer: names that identify the run are restored after package code."""

from pathlib import Path
from typing import Any

import pytest

from tests.unit.workflows.chats import ChatRecorder, build_chat
from tests.unit.workflows.packages import load
from workflows.chat.chat_state import Conversation
from workflows.chat.context_sanitizer import sanitize_context
from workflows.chat.model_call.metered_client import RunMeter
from workflows.context.context_variables import ContextVariables

FIXED = {"app_id": "app", "user_id": None, "cache_seed": 1}


class Incomparable:
    def __eq__(self, other: object) -> bool:
        raise RuntimeError

    __hash__ = None  # type: ignore[assignment]  # as Python itself does for a class with __eq__ alone


def restored(folder: Path, caplog: pytest.LogCaptureFixture, context: dict[str, Any]) -> list[str]:
    """Sanitizes a context with these values and returns the names that the log has as restored."""
    built, meter = build_chat(load(folder), {"answers": {}}, folder), RunMeter(ChatRecorder().record)
    chat = Conversation(built, ContextVariables(context), frozenset(), meter, "Begin.", fixed_values=FIXED)
    sanitize_context(chat, source="a tool")
    assert {name: chat.context.get(name) for name in FIXED} == FIXED
    assert type(chat.context["cache_seed"]) is int
    return [name for each in caplog.records if each.msg == "fixed_names_restored" for name in vars(each)["names"]]


def test_untouched_names_are_left_alone(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert restored(tmp_path, caplog, dict(FIXED)) == []


@pytest.mark.parametrize(
    ("changed", "names"),
    [
        ({"app_id": "another"}, ["app_id"]),
        ({"user_id": "somebody"}, ["user_id"]),
        ({"app_id": Incomparable()}, ["app_id"]),
        ({"cache_seed": True}, ["cache_seed"]),
    ],
    ids=["another value", "a value instead of none", "an object that cannot be compared", "true instead of 1"],
)
def test_a_changed_name_is_restored_and_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, changed: dict[str, Any], names: list[str]
) -> None:
    assert restored(tmp_path, caplog, {**FIXED, **changed}) == names


def test_a_removed_name_is_restored(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert restored(tmp_path, caplog, {"cache_seed": 1}) == ["app_id"]
