"""Usage errors of trigger commands, reported without a server."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from ops.cli.groups import triggers
from ops.cli.triggers.trigger_edit_commands import _read_entry

OURS = ("--workflow", "Sales", "--app", "acme")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("create", "{}"), "--workflow is needed, or workflow beside spec"),
        (("create", '{"workflow": "Sales", "spec": {}}'), "--app is needed, or app_id beside spec"),
        (("create", '{"workflow": "Other", "spec": {}}', *OURS), "--workflow is Sales, but FILE has Other"),
        (("create", '{"type": "webhook"}', "--type", "cron", *OURS), "--type is cron, but FILE has webhook"),
        (("create", "/no/such/file.yaml", *OURS), "cannot be read"),
        (("create", "{nope", *OURS), 'write a mapping such as {"name": "nightly"'),
        (("create", '{"a": NaN', *OURS), "write a mapping such as"),
        (("edit", "nightly", "/no/such/file.yaml"), "cannot be read"),
        (("fire", "lead", "--event", "{nope"), "is not JSON"),
        (("fire", "lead", "--event", "[1]"), "must be a JSON object"),
        (("resume", "paid", "--from", "yesterday"), "write a date such as 2026-01-31"),
        (("backfill", "nightly", "--from", "1d"), "Missing option '--to'"),
        (("list", "--type", "telepathy"), "Invalid value for '--type'"),
    ],
)
def test_a_mistake_is_reported_with_what_to_write(arguments: tuple[str, ...], message: str) -> None:
    done = CliRunner().invoke(triggers, list(arguments))

    assert (done.exit_code, message in done.output) == (2, True), done.output


@pytest.mark.parametrize("text", ["- name: a\n  every: 1h\n", "name: a\nevery: 1h\n", '{"name": "a", "every": "1h"}'])
def test_an_entry_is_read_as_it_stands_in_a_package(tmp_path: Path, text: str) -> None:
    (tmp_path / "entry.yaml").write_text(text)

    assert (
        _read_entry(str(tmp_path / "entry.yaml"))
        == _read_entry(f"@{tmp_path / 'entry.yaml'}")
        == {"name": "a", "every": "1h"}
    )


@pytest.mark.parametrize("body", [b"\xff\xfe", b"just words", b"- a\n- b\n", b"[" * 5_000, b""])
def test_what_is_no_entry_is_a_mistake_and_no_crash(tmp_path: Path, body: bytes) -> None:
    (tmp_path / "entry.yaml").write_bytes(body)

    done = CliRunner().invoke(triggers, ["create", str(tmp_path / "entry.yaml"), *OURS])

    assert done.exit_code == 2, done.output
    assert done.exception is None or isinstance(done.exception, SystemExit)
