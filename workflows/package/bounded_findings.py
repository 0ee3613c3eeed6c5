"""Findings in bounds: a hostile package neither fills a terminal nor a log."""

from collections.abc import Sequence
from dataclasses import replace

from workflows.package.findings import Finding

MAX_FINDINGS = 1_000
MAX_MESSAGE = 600  # characters; messages repeat what an author wrote
MAX_PATH = 300


def bounded(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """Errors are kept before all else; what is left out is counted."""
    kept = findings
    if len(findings) > MAX_FINDINGS:
        by_weight = sorted(findings, key=_weight)[:MAX_FINDINGS]
        rest = len(findings) - MAX_FINDINGS
        message = f"{rest} more findings are left out; correct these first"
        kept = [*by_weight, Finding("warning", "more_findings", by_weight[0].file, "", message)]
    return tuple(_shortened(each) for each in kept)


def _weight(finding: Finding) -> int:
    return 0 if finding.level == "error" else 1 if finding.blocks else 2 if finding.level == "warning" else 3


def _shortened(finding: Finding) -> Finding:
    if len(finding.message) <= MAX_MESSAGE and len(finding.path) <= MAX_PATH:
        return finding
    return replace(finding, message=_cut(finding.message, MAX_MESSAGE), path=_cut(finding.path, MAX_PATH))


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[:length]}…"
