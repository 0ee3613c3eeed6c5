"""What was skipped, and what to install, in one line: of one pytest, or of all that `make test` ran.

    python -m tests.skipped FILE

Each pytest whose UNATTENDED_TEST_SKIPS names a file adds its reasons to it.
"""

import json
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

INSTALL = "apt-get install "


def summary(reasons: Mapping[str, int]) -> str:
    """`reasons`: how many tests were skipped for each."""
    if not reasons:
        return "no test was skipped"
    packages = sorted({word for reason in reasons for word in reason.partition(INSTALL)[2].split()})
    others = sorted(reason for reason in reasons if INSTALL not in reason)
    parts = [f"to run them: {INSTALL}{' '.join(packages)}"] if packages else []
    return f"{sum(reasons.values())} tests were skipped; " + "; ".join([*parts, *others])


def note(reasons: Mapping[str, int], file: Path) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("a", encoding="utf-8") as lines:
        lines.write(json.dumps(dict(reasons)) + "\n")


def noted(file: Path) -> Counter[str]:
    total: Counter[str] = Counter()
    for line in file.read_text(encoding="utf-8").splitlines() if file.exists() else ():
        total.update(json.loads(line))
    return total


if __name__ == "__main__":
    sys.stdout.write(summary(noted(Path(sys.argv[1]))) + "\n")
