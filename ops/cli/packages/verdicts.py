"""Verdicts on packages, as JSON and as lines on a terminal."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ops.cli.output import current_terminal
from ops.presenters.amounts import pluralize
from ops.presenters.printable_text import to_encodable, to_printable

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
        "findings": [finding_json(finding) for finding in inspection.findings],
    }


def finding_json(finding: "Finding") -> dict[str, str]:
    values = (finding.level, finding.code, finding.file, finding.path, finding.message)
    return dict(zip(("level", "code", "file", "path", "message"), map(to_encodable, values), strict=True))


def print_verdict(inspection: "Inspection", path: Path) -> None:
    from workflows.package.files.line_numbers import locate_findings

    terminal = current_terminal()
    counts = ", ".join(f"{name} {number}" for name, number in asdict(inspection.counts).items())
    verdict = terminal.style(inspection.verdict, fg=_COLOURS[inspection.verdict], bold=True)
    suffix = ", not started" if inspection.verdict == "findings" and inspection.obstacles else ""
    terminal.print(f"{to_printable(inspection.name)}: {verdict}{suffix} ({to_printable(str(path))}): {counts}")
    for finding in locate_findings(inspection.findings, inspection.folder):
        level, _, rest = to_printable(str(finding)).partition(": ")
        terminal.print(f"  {terminal.style(level, fg=_COLOURS.get(level))}: {rest}")


def print_totals(inspections: "Sequence[Inspection]") -> None:
    number = Counter(inspection.verdict for inspection in inspections)
    counts = (f"{number['ready']} ready", f"{number['findings']} with findings", f"{number['refused']} refused")
    click.echo(f"{pluralize(len(inspections), 'package')}: {', '.join(counts)}")


def print_strict_result(warnings: int) -> None:
    texts = {0: "no warning", 1: "1 warning, which counts as an error"}
    click.echo(f"--strict: {texts.get(warnings, f'{warnings} warnings, which count as errors')}")
