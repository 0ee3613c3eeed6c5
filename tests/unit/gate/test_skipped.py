"""What the last line of `make test` says."""

from pathlib import Path

from tests.skipped import note, noted, summary


def test_nothing_skipped_is_said() -> None:
    assert summary({}) == "no test was skipped"


def test_packages_stand_once_and_other_reasons_behind_them() -> None:
    reasons = {
        "go is not installed here: apt-get install golang-go": 3,
        "promtool is not installed here: apt-get install prometheus": 2,
        "prometheus is not installed here: apt-get install prometheus": 1,
        "this system has no /dev/full": 1,
    }

    assert summary(reasons) == (
        "7 tests were skipped; to run them: apt-get install golang-go prometheus; this system has no /dev/full"
    )


def test_parts_of_the_gate_add_up(tmp_path: Path) -> None:
    file = tmp_path / "cache" / "skipped"
    note({"a": 1}, file)
    note({}, file)
    note({"a": 2, "b": 1}, file)

    assert noted(file) == {"a": 3, "b": 1}
    assert noted(tmp_path / "absent") == {}
