"""Readers for the tests of the pages: each with a home in memory, a model server and a GitHub of this machine."""

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from ops.free_ports import find_free_address
from tests.e2e.docs.command_forker import command
from tests.e2e.docs.reader import Reader, reader
from tests.e2e.docs.sensible_model import sensible_model
from tests.e2e.product import wait_until
from tests.integration.conftest import MEMORY
from tests.integration.github_server import TOKEN, github_server
from tests.programs import require_program

FORKER = Path(__file__).with_name("command_forker.py")
PROGRAMS = ("curl", "openssl", "prometheus")  # each is a Debian package of its name


@contextmanager
def new_reader() -> Iterator[Reader]:
    """The embedded servers keep their data in the home, and a disk is slow."""
    for program in PROGRAMS:
        require_program(program, package=program)
    with ExitStack() as stack:
        folder = stack.enter_context(
            tempfile.TemporaryDirectory(prefix="unattended-reader-", dir=MEMORY if MEMORY.is_dir() else None)
        )
        model, github = stack.enter_context(sensible_model()), stack.enter_context(github_server())
        replaced = {
            "127.0.0.1:8400": (gateway := str(find_free_address())),
            "localhost:8400": gateway,
            "127.0.0.1:9400": (exporter := str(find_free_address())),
            "127.0.0.1:9090": str(find_free_address()),
            "127.0.0.1:11434": model.url.removeprefix("http://").removesuffix("/v1"),
            "https://api.github.com": github.url,
            "your GitHub token": TOKEN,
        }
        yield stack.enter_context(
            reader(
                Path(folder),
                replaced=replaced,
                command=stack.enter_context(forked_commands(Path(folder))),
                OPENAI_BASE_URL=model.url,
                GITHUB_API_URL=github.url,
                UNATTENDED_LISTEN=gateway,
                UNATTENDED_METRICS_LISTEN=exporter,
            )
        )


@contextmanager
def forked_commands(folder: Path) -> Iterator[str]:
    """What stands for `unattended` on a reader's PATH."""
    socket = folder / "commands"
    forker = subprocess.Popen([sys.executable, "-P", str(FORKER), str(socket)])
    try:
        wait_until("commands can be forked", socket.exists, within_s=90)
        yield command(socket)
    finally:
        forker.terminate()
        forker.wait()
