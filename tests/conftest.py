"""For all tests: how much a property test tries, and that how long it may take is for pytest to say, not for a machine
that is busy. Settings and ignored signals of the shell that starts them are not theirs. A failing test shows the logs
of servers that died, and the last line says what was skipped."""

import logging
import os
import signal
from collections import Counter
from collections.abc import Generator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests import skipped
from tests.chaos.lengths import by_length
from tests.server_logs import DEATHS

EXAMPLES = by_length(short=10, long=500)  # those that name a number of their own keep it

settings.register_profile("patient", max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")

for name in [name for name in os.environ if name.startswith("UNATTENDED_") and not name.startswith("UNATTENDED_TEST_")]:
    del os.environ[name]

# A shell ignores these in what it starts in the background. Children inherit an ignored signal, and would never be
# interrupted; a handler they do not inherit, and this one goes on ignoring it here.
for number in (signal.SIGINT, signal.SIGQUIT):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, lambda *_: None)

logging.getLogger("ops.embedded").addHandler(DEATHS)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    DEATHS.begin_test()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.failed:
        report.sections.extend(DEATHS.sections())
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if hasattr(terminalreporter.config, "workerinput"):  # one of several processes: its controller has all reports
        return
    reports = terminalreporter.stats.get("skipped", [])
    reasons = Counter(str(report.longrepr[2]).removeprefix("Skipped: ") for report in reports)
    if reasons:
        terminalreporter.write_line(skipped.summary(reasons))
    if file := os.environ.get("UNATTENDED_TEST_SKIPS"):
        skipped.note(reasons, Path(file))
