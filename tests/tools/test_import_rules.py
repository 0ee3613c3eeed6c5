"""Importing our code does nothing: no socket, no environment, and no chat library in a process that starts runs."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

import workflows

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("accounting", "workflows", "workers", "triggers", "ops")
SETTINGS = ROOT / "workers" / "settings.py"


def modules() -> list[str]:
    """Every module of ours; tools of shipped packages are loaded by path, never imported."""
    found = []
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            if "library" not in parts and (path.parent / "__init__.py").exists():
                found.append(".".join(parts).removesuffix(".__init__"))
    return found


def python(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "error::ResourceWarning", "-c", code],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd=ROOT,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


GUARDS = """
import importlib, os, socket, sys
from collections.abc import MutableMapping

ROOT = {root!r}


def of_ours():
    frame = sys._getframe(2)
    while frame is not None:
        file = frame.f_code.co_filename
        if file == importlib.__file__ or "importlib" in file:
            return False  # somebody's module is being imported: what it reads is its own affair, ours was seen nearer
        if file.startswith(ROOT) and ".venv" not in file and file != "<string>":
            return True
        if not file.startswith("<") and "/os.py" not in file:
            return False
        frame = frame.f_back
    return False


class Watched(MutableMapping):
    def __init__(self, real): self._real = real
    def _check(self):
        if of_ours(): raise AssertionError("the environment was read while a module of ours was imported")
    def __getitem__(self, key): self._check(); return self._real[key]
    def __setitem__(self, key, value): self._check(); self._real[key] = value
    def __delitem__(self, key): self._check(); del self._real[key]
    def __iter__(self): self._check(); return iter(self._real)
    def __len__(self): self._check(); return len(self._real)
    def __contains__(self, key): self._check(); return key in self._real
    def copy(self): self._check(); return self._real.copy()


class NoSocket(socket.socket):
    def __init__(self, *args, **kwargs): raise AssertionError("a socket was opened while a module was imported")


def no_connection(*args, **kwargs): raise AssertionError("a connection was opened while a module was imported")


os.environ = Watched(os.environ)
os.getenv = lambda key, default=None: os.environ.get(key, default)
socket.socket = NoSocket
socket.create_connection = socket.create_server = socket.getaddrinfo = no_connection
"""


def test_importing_every_module_opens_no_socket_and_reads_no_environment() -> None:
    names = modules()
    imports = f"\nfor name in {names!r}:\n    importlib.import_module(name)\nprint('imported')\n"

    assert len(names) > 100
    assert python(GUARDS.format(root=str(ROOT) + "/") + imports).strip() == "imported"


def test_the_guards_would_notice(tmp_path: Path) -> None:
    guards = GUARDS.format(root=f"{tmp_path}/")
    (tmp_path / "reads.py").write_text("import os\nx = os.environ.get('PATH')\n")
    (tmp_path / "gets.py").write_text("import os\nx = os.getenv('PATH')\n")
    (tmp_path / "opens.py").write_text("import socket\nsocket.socket()\n")
    for name, said in (("reads", "environment"), ("gets", "environment"), ("opens", "socket")):
        attempt = f"try:\n    import {name}\nexcept AssertionError as error:\n    print(error)\n"
        code = f"{guards}\nsys.path.insert(0, {str(tmp_path)!r})\n{attempt}"
        assert said in python(code)


def test_only_what_works_on_runs_loads_ag2_or_the_tasks_of_celery() -> None:
    """One after another in one process: each line names what was loaded by then."""
    modules = (
        "workers.celery",
        "triggers.gateway.gateway_app",
        "triggers.schedule.scheduler_role",
        "triggers.change_stream.watcher_role",
        "triggers.gateway.gateway_role",
        "workers.reconciler.reconciler",
        "ops.exporter.exporter_role",
    )
    unwanted = {"ag2", "openai", "autogen", "workflows.chat", "workers.tasks"}
    code = f"""
import importlib, sys
for module in {modules!r}:
    importlib.import_module(module)
    print(module, sorted({unwanted!r} & set(sys.modules)))
"""
    assert python(code).splitlines() == [f"{module} []" for module in modules]


def test_our_packages_are_ours() -> None:
    assert workflows.__file__ == str(ROOT / "workflows" / "__init__.py")
    for package in PACKAGES:
        spec = importlib.util.find_spec(package)
        assert spec is not None
        assert spec.origin == str(ROOT / package / "__init__.py")


@pytest.mark.parametrize("package", PACKAGES)
def test_package_files_are_empty(package: str) -> None:
    said = [path for path in (ROOT / package).rglob("__init__.py") if path.read_text(encoding="utf-8").strip()]
    assert said == []


def test_only_the_settings_name_the_process_environment() -> None:
    tools = ROOT / "workflows" / "library"  # they stand for users' code, which has its worker's environment
    named = [
        path.relative_to(ROOT)
        for package in PACKAGES
        for path in (ROOT / package).rglob("*.py")
        if path != SETTINGS
        and not path.is_relative_to(tools)
        and ("os.environ" in (text := path.read_text(encoding="utf-8")) or "os.getenv" in text)
    ]
    assert named == []


def test_a_directory_with_folders_of_our_names_does_not_hide_ours(tmp_path: Path) -> None:
    for package in PACKAGES:
        (tmp_path / package).mkdir()
        (tmp_path / package / "__init__.py").write_text("raise SystemExit('not ours')\n")
    code = f"""
import importlib.util, sys
sys.path.insert(0, {str(tmp_path)!r})
spec = importlib.util.spec_from_file_location("unattended", {str(ROOT / "unattended.py")!r})
command = importlib.util.module_from_spec(spec)
spec.loader.exec_module(command)
command.bind_packages()
import ops, triggers, workers.settings, workflows.package.findings
print(workflows.__file__)
"""

    assert python(code).strip() == str(ROOT / "workflows" / "__init__.py")
