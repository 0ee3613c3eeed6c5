import json
import socket
from pathlib import Path

import pytest

from ops.embedded.embedded_server import last_error_line, read_log_since
from ops.embedded.loopback_ports import find_free_port
from ops.processes.supervisor import PROGRAM, exit_facts, role_command


def test_the_last_error_of_mongod_is_its_last_word() -> None:
    entries = [
        {"s": "I", "msg": "starting", "attr": {"a": 1}},
        {"s": "E", "msg": "Failed to set up listener", "attr": {"error": "Address already in use"}},
        {"s": "F", "msg": "\n\n***aborting after fassert() failure\n\n", "attr": {}},
        {"s": "I", "msg": "shutting down"},
    ]

    words = last_error_line("\n".join(map(json.dumps, entries)))

    assert words == 'Failed to set up listener: {"error": "Address already in use"}'


def test_without_marked_errors_it_is_the_last_line() -> None:
    assert last_error_line("12:M * loading\n12:M # Fatal error\n\n") == "12:M # Fatal error"


def test_words_are_short() -> None:
    assert len(last_error_line("x" * 100_000)) == 300
    assert last_error_line("") == "it logged nothing"


def test_words_of_earlier_starts_do_not_count(tmp_path: Path) -> None:
    log = tmp_path / "redis.log"
    log.write_text("old trouble\nnew trouble\n", encoding="utf-8")

    assert read_log_since(log, len("old trouble\n")) == "new trouble\n"
    assert read_log_since(log, log.stat().st_size + 1) == "old trouble\nnew trouble\n"
    assert read_log_since(tmp_path / "absent.log", 0) == ""


def test_the_preferred_port_is_kept_while_it_is_free() -> None:
    port = find_free_port()

    assert port < 32_768, "an outgoing connection may take it while its server restarts"
    assert find_free_port(port) == port


@pytest.mark.parametrize("impossible", [-1, 70_000])
def test_an_impossible_port_is_replaced(impossible: int) -> None:
    assert 0 < find_free_port(impossible) < 65_536


def test_a_taken_port_is_replaced() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        taken = server.getsockname()[1]

        assert find_free_port(taken) != taken


def test_a_role_starts_from_our_file_and_never_the_current_directory() -> None:
    command = role_command("worker", "--verbose")

    assert command[1:] == ("-P", str(PROGRAM), "worker", "--verbose")
    assert PROGRAM.is_file()


@pytest.mark.parametrize(
    ("code", "ended"),
    [(0, {"exit_code": 0}), (3, {"exit_code": 3}), (-9, {"signal": "SIGKILL"}), (-999, {"signal": 999})],
)
def test_how_a_child_ended(code: int, ended: dict[str, object]) -> None:
    assert exit_facts(code) == ended
