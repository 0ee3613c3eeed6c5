"""Steps of broker tests: slow runs, accepted runs, all runs ended."""

from collections.abc import Callable

from tests.integration.stage import Document, Stage

OnBroker = Callable[..., Stage]


def make_agents_slow(stage: Stage, delay_s: float = 0.4) -> None:
    stage.answers({agent: [{"text": agent, "delay_s": delay_s}] for agent in "AB"})


async def wait_for_all_ends(stage: Stage, run_ids: list[str], *, within_s: float = 60) -> list[Document]:
    runs = [await stage.reconcile_until_end(each, within_s=within_s) for each in run_ids]
    assert {run["state"] for run in runs} == {"succeeded"}
    # A call of a killed worker has a row too, without an answer.
    rows = [sum(row["ok"] for row in await stage.usage_rows(each)) for each in run_ids]
    assert rows == [2] * len(run_ids), "a run was worked on twice"
    return runs


async def accept_runs(stage: Stage, count: int) -> list[str]:
    return [(await stage.accept("Relay")).run_id for _ in range(count)]
