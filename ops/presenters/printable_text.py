"""Verdicts on packages: as JSON, and as lines for people."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from workflows.package.findings import Finding
    from workflows.package.loader import Inspection

_COLOURS = {"refused": "red", "findings": "yellow", "ready": "green", "error": "red", "warning": "yellow"}


def inspection_json(inspection: "Inspection", path: Path) -> dict[str, Any]:
    return {
        "name": to_encodable(inspection.name),
        "path": to_encodable(str(path)),
        "verdict": inspection.verdict,
        "counts": asdict(inspection.counts),
        "findings": [finding_json(each) for each in inspection.findings],
    }


def finding_json(finding: "Finding") -> dict[str, str]:
    words = (finding.level, finding.code, finding.file, finding.path, finding.message)
    return dict(zip(("level", "code", "file", "path", "message"), map(to_encodable, words), strict=True))


def to_encodable(text: str) -> str:
    """JSON may hold half of a surrogate pair, and a file name any byte; no terminal or pipe takes either."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def to_printable(text: str) -> str:
    """One line without anything that a terminal would act on."""
    if text.isprintable():  # nearly all of it is, and goes a hundred times as fast
        return text
    return "".join(
        each if each.isprintable() else each.encode("unicode_escape").decode() for each in to_encodable(text)
    )


def print_verdict(inspection: "Inspection", path: Path) -> None:
    from ops.cli.output import current_terminal
    from workflows.package.files.line_numbers import locate_findings

    shown = current_terminal()

    counted = ", ".join(f"{name} {number}" for name, number in asdict(inspection.counts).items())
    verdict = shown.style(inspection.verdict, fg=_COLOURS[inspection.verdict], bold=True)
    held = ", not started" if inspection.verdict == "findings" and inspection.obstacles else ""
    shown.print(f"{to_printable(inspection.name)}: {verdict}{held} ({to_printable(str(path))}): {counted}")
    for each in locate_findings(inspection.findings, inspection.folder):
        level, _, rest = to_printable(str(each)).partition(": ")
        shown.print(f"  {shown.style(level, fg=_COLOURS.get(level))}: {rest}")


def print_totals(inspections: "Sequence[Inspection]") -> None:
    number = Counter(each.verdict for each in inspections)
    noun = "package" if len(inspections) == 1 else "packages"
    words = (f"{number['ready']} ready", f"{number['findings']} with findings", f"{number['refused']} refused")
    click.echo(f"{len(inspections)} {noun}: {', '.join(words)}")


def print_strict_result(warnings: int) -> None:
    counted = {0: "no warning", 1: "1 warning, which counts as an error"}
    click.echo(f"--strict: {counted.get(warnings, f'{warnings} warnings, which count as errors')}")
