"""Findings in bounds: a hostile package neither fills a terminal nor a log."""

from collections.abc import Sequence
from dataclasses import replace

from workflows.package.findings import Finding

MAX_FINDINGS = 1_000
MAX_MESSAGE_CHARACTERS = 600  # characters; messages repeat what an author wrote
MAX_PATH_CHARACTERS = 300


def limit_findings(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """Errors are kept before all else; what is left out is counted."""
    kept = findings
    if len(findings) > MAX_FINDINGS:
        by_weight = sorted(findings, key=_severity_rank)[:MAX_FINDINGS]
        rest = len(findings) - MAX_FINDINGS
        message = f"{rest} more findings are left out; correct these first"
        kept = [*by_weight, Finding("warning", "more_findings", by_weight[0].file, "", message)]
    return tuple(_shorten(each) for each in kept)


def _severity_rank(finding: Finding) -> int:
    return 0 if finding.level == "error" else 1 if finding.is_blocking else 2 if finding.level == "warning" else 3


def _shorten(finding: Finding) -> Finding:
    if len(finding.message) <= MAX_MESSAGE_CHARACTERS and len(finding.path) <= MAX_PATH_CHARACTERS:
        return finding
    return replace(finding, message=_truncate(finding.message, MAX_MESSAGE_CHARACTERS), path=_truncate(finding.path, MAX_PATH_CHARACTERS))


def _truncate(text: str, max_characters: int) -> str:
    return text if len(text) <= max_characters else f"{text[:max_characters]}…"
