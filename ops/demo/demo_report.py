"""The demo's report: its runs and their usage, as tables or as JSON."""

from collections.abc import Mapping, Sequence
from typing import Any

from ops.cli.output import print_json, print_table
from ops.presenters.amounts import format_exact_usd


def make_summary(
    runs: Sequence[Mapping[str, Any]], usage: Sequence[Mapping[str, Any]], *, metrics_url: str
) -> dict[str, Any]:
    return {
        "runs": [
            {
                "run_id": run["_id"],
                "app_id": run["app_id"],
                "workflow": run["workflow"],
                "trigger": {"type": run["trigger"]["type"], "name": run["trigger"]["name"]},
                "state": run["state"],
                "turns": run["turn"],
            }
            for run in runs
        ],
        "usage": [
            {name: row[name] for name in ("app_id", "input_tokens", "output_tokens", "cost_usd")} for row in usage
        ],
        "metrics_url": metrics_url,
    }


def print_summary(report: Mapping[str, Any], *, as_json: bool) -> None:
    if as_json:
        print_json(report)
        return
    print_table(
        "Runs",
        ["run", "app", "workflow", "trigger", "type", "state", "turns"],
        [
            [
                f"…{run['run_id'][-6:]}",  # a whole id would not fit a narrow terminal
                run["app_id"],
                run["workflow"],
                run["trigger"]["name"],
                run["trigger"]["type"],
                run["state"],
                run["turns"],
            ]
            for run in report["runs"]
        ],
    )
    print_table(
        "Tokens and USD per app",
        ["app", "input tokens", "output tokens", "USD"],
        [
            [row["app_id"], row["input_tokens"], row["output_tokens"], format_exact_usd(row["cost_usd"])]
            for row in report["usage"]
        ],
    )
