from pathlib import Path

import pytest

from ops.embedded.binaries import MONGOD_PROGRAM, REDIS_PROGRAM, ServerProgram, find_binary, find_mongod, find_redis
from ops.embedded.embedded_error import EmbeddedError

pytestmark = pytest.mark.integration


def place_broken(program: ServerProgram, folder: Path, *, without: dict[bytes, bytes]) -> Path:
    """The real server, linked to libraries that no machine has."""
    content = find_binary(program).path.read_bytes()
    for library, absent in without.items():
        assert library in content
        content = content.replace(library, absent)
    path = folder / program.names[0]
    path.write_bytes(content)
    path.chmod(0o700)
    return path


def only_on_path(program: ServerProgram) -> ServerProgram:
    return ServerProgram(program.names, "absent.wheel", program.pattern, program.product, program.setting)


def test_both_servers_are_found_and_run() -> None:
    assert find_redis().version != "unknown"
    assert find_mongod().version.split(".") >= ["4"]


def test_all_libraries_that_mongod_lacks_are_named_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place_broken(
        MONGOD_PROGRAM, tmp_path, without={b"libcurl.so.4\0": b"libcurX.so.4\0", b"libssl.so.3\0": b"libssX.so.3\0"}
    )
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(EmbeddedError, match=r"mongod lacks libcurX\.so\.4, libssX\.so\.3: install") as caught:
        find_binary(only_on_path(MONGOD_PROGRAM))

    assert "set UNATTENDED_MONGODB_URL" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_library_that_redis_lacks_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place_broken(REDIS_PROGRAM, tmp_path, without={b"libm.so.6\0": b"libm.so.X\0"})
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(EmbeddedError, match=r"valkey-server lacks libm\.so\.X: install"):
        find_binary(only_on_path(REDIS_PROGRAM))
