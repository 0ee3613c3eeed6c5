"""A reader: types a page's shell blocks one after another, in a home directory of its own.

Ports and outside addresses are replaced by free ones of this machine; everything else is typed as written.
"""

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ops.free_ports import find_free_address
from ops.processes.role_processes import ROLES
from tests.e2e.docs.command_forker import command
from tests.e2e.docs.pages import START, Block, around_start
from tests.e2e.docs.sensible_model import sensible_model
from tests.e2e.product import descendants, is_alive, wait_until
from tests.integration.conftest import MEMORY
from tests.integration.github_server import TOKEN, github_server
from tests.programs import require_program
from tests.unit.docs.test_docs import ROOT

# Commands that run until the page ends, in a terminal of their own, and their output when ready.
READY = {
    START: tuple(f"{role}_ready" for role in ROLES),
    "prometheus": ("Server is ready to receive web requests",),
}
TIMEOUT_S = 60.0
READS_S = 0.3  # a reader pauses between attempts
# As in a terminal, variables and directory persist.
TYPED = 'set -a\ntrap \'/usr/bin/env -0 > "{state}/env"; pwd > "{state}/cwd"\' EXIT\n{text}'

FORKER = Path(__file__).with_name("command_forker.py")
PROGRAMS = ("curl", "openssl", "prometheus")  # each is a Debian package of the same name


@dataclass(slots=True)
class Reader:
    """`replaced` maps addresses of the pages to the ones used here."""

    folder: Path
    environ: dict[str, str]
    replaced: Mapping[str, str]
    cwd: Path
    program: Path
    staying: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    stood: dict[Path, tuple[dict[str, str], Path]] = field(default_factory=dict)

    def read_to_start(self, page: Path) -> None:
        """Type the blocks before the product's start, which `start` does once."""
        for block in around_start(page)[0]:
            self._read(block)
        self.stood[page] = self.environ, self.cwd

    def start(self) -> None:
        self._start_in_background(START)

    def restore_state(self, page: Path) -> None:
        """Type the rest in the state that the terminal had before the product's start."""
        self.environ, self.cwd = self.stood[page]

    def read_on(self, page: Path) -> None:
        for block in around_start(page)[1]:
            self._read(block)

    def _read(self, block: Block) -> None:
        text = self._replace_addresses(block)
        if text.startswith(tuple(READY)):
            self._start_in_background(text.strip())
            return
        shown = block.mark("shows")
        if shown is None:
            self._run(block, text)
            return
        outputs: list[str] = []

        def is_shown() -> bool:
            outputs.append(self._run(block, text))
            return shown in outputs[-1]

        with showing_output_on_failure(lambda: outputs[-1]):
            wait_until(f"{block.place} shows {shown}", is_shown, within_s=40, every_s=READS_S)

    def _replace_addresses(self, block: Block) -> str:
        text = block.text
        for word, what in block.given_words:
            assert re.search(rf"\b{word}\b", text), f"{block.place} has no {word}"
            text = re.sub(rf"\b{word}\b", self.run_in(what), text)
        for written, here in self.replaced.items():
            text = text.replace(written, here)
        return text

    def _run(self, block: Block, text: str) -> str:
        with keyboard(block.mark("answered")) as stdin:
            done = subprocess.run(
                ["/bin/bash", "-euo", "pipefail", "-c", TYPED.format(state=self.folder, text=text)],
                cwd=self.cwd,
                env=self.environ,
                stdin=stdin,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=TIMEOUT_S,
                check=False,
            )
        expected = int(block.mark("expect") or 0)
        assert done.returncode == expected, (
            f"{block.place} ended with {done.returncode}:\n{text}\n{done.stdout[-3000:]}"
        )
        assert "Traceback" not in done.stdout, f"{block.place}:\n{done.stdout}"
        pairs = (self.folder / "env").read_text().split("\0")
        self.environ = dict(each.split("=", 1) for each in pairs if "=" in each)
        self.cwd = Path((self.folder / "cwd").read_text().strip())
        return done.stdout

    def _start_in_background(self, command: str) -> None:
        kind = next(start for start in READY if command.startswith(start))
        output = self.folder / f"{kind.replace(' ', '-')}.log"
        with output.open("wb") as file:
            process = subprocess.Popen(
                ["/bin/bash", "-c", f"exec {command}"], cwd=self.cwd, env=self.environ, stdout=file, stderr=file
            )
        self.staying[kind] = process

        def is_ready() -> bool:
            printed = output.read_text()
            assert process.poll() is None, f"{command} ended:\n{printed}"
            return all(word in printed for word in READY[kind])

        with showing_output_on_failure(output.read_text):
            wait_until(f"{command} is ready", is_ready, within_s=120)

    def _end(self, kind: str) -> None:
        """Press Ctrl-C, and check that no process is left."""
        process = self.staying.pop(kind)
        family = descendants(process.pid)
        process.send_signal(signal.SIGINT)
        process.wait(40)
        left = [each for each in family if is_alive(each)]
        for each in left:
            each.kill()
        assert not left, f"left behind: {left}"

    def leave(self) -> None:
        for kind in reversed(list(self.staying)):
            self._end(kind)

    def unattended(self, *arguments: str) -> Any:
        """Run a command with --json, and return its value."""
        done = subprocess.run(
            [self.program, *arguments, "--json"],
            cwd=self.cwd,
            env=self.environ,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def run_in(self, state: str) -> str:
        """Return the newest run in a state, which a page has started."""
        found = wait_until(
            f"a run is {state}", lambda: self.unattended("runs", "list", "--state", state, "--limit", "1")
        )
        return str(found[0]["run_id"])


@contextmanager
def showing_output_on_failure(output: Callable[[], str]) -> Iterator[None]:
    """Wait for a text; on a timeout show the output so far."""
    try:
        yield
    except AssertionError as late:
        raise AssertionError(f"{late}\n{output()[-3000:]}") from None


@contextmanager
def keyboard(answer: str | None) -> Iterator[int]:
    """Give a block with answers a terminal, other blocks none."""
    if answer is None:
        yield subprocess.DEVNULL
        return
    keys, terminal = os.openpty()
    try:
        os.write(keys, f"{answer}\n".encode())
        yield terminal
    finally:
        os.close(keys)
        os.close(terminal)


@contextmanager
def reader(folder: Path, *, replaced: Mapping[str, str], command: str, **environ: str) -> Iterator[Reader]:
    """Start in a copy of the checkout, as after `git clone` and `make demo`."""
    checkout, home = folder / "unattended", folder / "home"
    home.mkdir()
    link_tree(ROOT, checkout, without=(".git", ".unattended", ".venv"))
    link_tree(Path(sys.prefix), checkout / ".venv", without=("bin",))
    link_tree(Path(sys.executable).parent, checkout / ".venv" / "bin", without=("unattended",))
    program = checkout / ".venv" / "bin" / "unattended"
    program.write_text(command)
    program.chmod(0o755)
    # Settings of the developer's environment must not apply.
    clean = {name: os.environ[name] for name in ("LANG", "LC_ALL", "TZ") if name in os.environ}
    path = f"{program.parent}:/usr/local/bin:/usr/bin:/bin"
    one = Reader(
        folder, {**clean, "PATH": path, "HOME": str(home), "NO_COLOR": "1", **environ}, replaced, checkout, program
    )
    try:
        yield one
    finally:
        one.leave()


def link_tree(there: Path, here: Path, *, without: tuple[str, ...]) -> None:
    here.mkdir()
    for each in there.iterdir():
        if each.name not in without:
            (here / each.name).symlink_to(each)


@contextmanager
def new_reader() -> Iterator[Reader]:
    """Place the home in memory if possible, as embedded servers write to it."""
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
    """Write the `unattended` of the reader's PATH."""
    socket = folder / "commands"
    forker = subprocess.Popen([sys.executable, "-P", str(FORKER), str(socket)])
    try:
        wait_until("commands can be forked", socket.exists, within_s=90)
        yield command(socket)
    finally:
        forker.terminate()
        forker.wait()
