"""Refusals on a terminal: text of callers and models is printed without control characters."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from ops.cli.runs import bulk_actions
from ops.cli.runs.run_commands import REPLAY
from ops.cli.runs.run_options import exit_on_refusal
from workers.control.bulk_change import BulkResult
from workers.control.change_result import RefusedError
from workers.control.run_effects import RunEffects, WouldRepeatError, WriteEffect

KEY = "o-7\x1b]0;owned\x07\x9b2J\n\u202e"
SHOWN = r"key o-7\x1b]0;owned\x07\x9b2J\n\u202e"
ERROR = WouldRepeatError("run_1", RunEffects(writes=[WriteEffect(1, "order", "shop.orders", "key", KEY)]))


def refuse_named_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(_order: Any, _run_ids: Sequence[str]) -> list[dict[str, Any]]:
        return [{"run_id": "run_1", "refused": str(ERROR)}]

    monkeypatch.setattr(bulk_actions, "_apply_to_named", refused)
    assert not bulk_actions.change_named(REPLAY, ["run_1"], {"as_json": False})


def refuse_many_runs(_monkeypatch: pytest.MonkeyPatch) -> None:
    tally = BulkResult()
    tally.add(("run_1", str(ERROR)))
    bulk_actions._print_tally(REPLAY, tally, as_json=False)


def refuse_one_run(_monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SystemExit), exit_on_refusal():
        raise RefusedError(str(ERROR))


@pytest.mark.parametrize("refuse", [refuse_named_runs, refuse_many_runs, refuse_one_run])
def test_a_refusal_is_one_line_that_steers_no_terminal(
    refuse: Callable[[pytest.MonkeyPatch], None],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    refuse(monkeypatch)

    [line] = capsys.readouterr().err.splitlines()
    assert line.isprintable()
    assert SHOWN in line
