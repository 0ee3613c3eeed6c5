"""Applies each mutation to the working tree and says which tests notice it.

    python -m tests.mutations                   all of them: the fast tests first, then those on servers
    python -m tests.mutations --fast            the fast tests alone
    python -m tests.mutations --servers         the tests on servers alone
    python -m tests.mutations --check           only whether each is found in the product, once
    python -m tests.mutations --only held.py    those whose file or behaviour has these words

A mutation is caught when pytest ends with failed tests. The file is put back whatever happens, also after Ctrl-C.
"""

import argparse
import itertools
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[2]
TABLE = Path(__file__).with_name("mutations.yaml")
PRODUCT = ("accounting", "workflows", "workers", "triggers", "ops")
PASSED, FAILED = 0, 1  # pytest's exit codes
_SECONDS = itertools.count(7)
AIMS = {"fast": 0.70, "all": 0.95}


@dataclass(frozen=True, slots=True)
class Mutation:
    file: str
    old: str
    new: str
    behaviour: str
    fast: Sequence[str]
    servers: Sequence[str]


class AnchorError(Exception):
    """The old text is not in the product, or more than once."""


def read_table() -> list[Mutation]:
    return [Mutation(**each) for each in yaml.safe_load(TABLE.read_text(encoding="utf-8"))]


def found(mutation: Mutation) -> Path:
    """The file that has the old text once: the named one, or after a renaming the only other one."""
    named = ROOT / mutation.file
    if named.is_file() and named.read_text(encoding="utf-8").count(mutation.old) == 1:
        return named
    if named.is_file() and mutation.old in named.read_text(encoding="utf-8"):
        raise AnchorError(f"{mutation.file}: {mutation.old.strip()!r} stands there more than once")
    having = [path for folder in PRODUCT for path in (ROOT / folder).rglob("*.py") if _has(path, mutation.old)]
    if len(having) != 1:
        places = ", ".join(str(path.relative_to(ROOT)) for path in having) or "no file"
        raise AnchorError(f"{mutation.file}: {mutation.old.strip()!r} stands in {places}")
    return having[0]


def _has(path: Path, text: str) -> bool:
    return path.read_text(encoding="utf-8").count(text) == 1


@contextmanager
def applied(mutation: Mutation) -> Iterator[None]:
    path = found(mutation)
    text, before = path.read_text(encoding="utf-8"), path.stat()
    try:
        path.write_text(text.replace(mutation.old, mutation.new), encoding="utf-8")
        # Compiled files are told apart by whole seconds and size: no two mutations of a file may share both.
        os.utime(path, (before.st_atime, before.st_mtime + next(_SECONDS)))
        yield
    finally:
        path.write_text(text, encoding="utf-8")
        os.utime(path, (before.st_atime, before.st_mtime))


def caught(tests: Sequence[str]) -> bool:
    """By tests of this kind, those that are there: others were renamed."""
    there = [each for each in tests if (ROOT / each).exists()]
    if missing := sorted(set(tests) - set(there)):
        sys.stdout.write(f"    not there: {', '.join(missing)}\n")
    if not there:
        return False
    options = ("-q", "-x", "-n", "0", "--no-header", "-p", "no:cacheprovider")
    environ = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, *there], cwd=ROOT, env=environ, capture_output=True, check=False
    )
    said = done.stdout.decode()
    if done.returncode not in {PASSED, FAILED}:
        sys.stdout.write(f"    pytest ended with {done.returncode}\n{said[-2000:]}\n")
    return done.returncode == FAILED


def judged(mutation: Mutation, kinds: Sequence[str]) -> str:
    tests = {"fast": mutation.fast, "servers": mutation.servers}
    with applied(mutation):
        return next((kind for kind in kinds if caught(tests[kind])), "survived")


def check(mutations: Sequence[Mutation]) -> int:
    lost = 0
    for mutation in mutations:
        try:
            found(mutation)
        except AnchorError as error:
            lost += 1
            sys.stdout.write(f"{error}\n")
    sys.stdout.write(f"{len(mutations)} mutations, {lost} not found\n")
    return lost


def main() -> int:
    for number in (signal.SIGINT, signal.SIGTERM):  # the one is ignored in the background, the other would leave it so
        signal.signal(number, lambda number, _: sys.exit(128 + number))
    parser = argparse.ArgumentParser(prog="python -m tests.mutations")
    parser.add_argument("--fast", dest="kinds", action="store_const", const=["fast"], default=["fast", "servers"])
    parser.add_argument("--servers", dest="kinds", action="store_const", const=["servers"])
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    chosen = [each for each in read_table() if options.only in each.file or options.only in each.behaviour]
    lost = check(chosen)
    if options.check or lost:
        return int(lost > 0)
    verdicts = []
    for mutation in chosen:
        verdicts.append(judged(mutation, options.kinds))
        sys.stdout.write(f"{verdicts[-1]:9} {mutation.file}: {mutation.behaviour}\n")
        sys.stdout.flush()
    fast, both = (sum(each in kinds for each in verdicts) for kinds in (("fast",), ("fast", "servers")))
    sys.stdout.write(f"{len(chosen)} mutations: {fast} caught by the fast tests, {both} by those that were run\n")
    aims = [("fast" in options.kinds, fast, AIMS["fast"]), (len(options.kinds) == len(AIMS), both, AIMS["all"])]
    return int(any(counts and number < share * len(chosen) for counts, number, share in aims))


if __name__ == "__main__":
    sys.exit(main())
