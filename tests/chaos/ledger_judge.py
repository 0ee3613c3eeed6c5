"""The judge of the ledger: what a model server was asked and has served, against what stands in the rows."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from accounting.ledger.rows import WORKER_LOST
from accounting.normalising import CHARACTERS_PER_TOKEN
from accounting.totals.sums import TOKENS
from accounting.usage import Tokens
from tests.chaos.auditing_model import Asked, AuditingModel
from tests.chaos.auditing_replies import number_of
from tests.integration.stage import Stage

Row = Mapping[str, Any]
Caller = tuple[str, str, str, str]

CANCELLED = "Cancelled"
# How the work of a run's owner ended, of which a row says so.
CUT_OFF_BY = {WORKER_LOST: {"worker_lost", "cancelled"}, CANCELLED: {"cancelled", "worker_lost", "handed_back"}}
NANO_USD_OF_INPUT, NANO_USD_OF_OUTPUT = 1_000, 2_000  # what a stage's models cost


@dataclass
class Verdict:
    requests: int = 0
    served: int = 0
    lost: Counter[str] = field(default_factory=Counter)  # rows of calls that ended with their worker or their run
    unanswered: int = 0  # served, and not reported by these rows
    wrong: list[str] = field(default_factory=list)

    def numbers(self) -> dict[str, int]:
        return {
            "model calls": self.requests,
            "served": self.served,
            "lost with a worker": self.lost[WORKER_LOST],
            "cancelled calls": self.lost[CANCELLED],
            "of them answered": self.unanswered,
        }


async def judged(stage: Stage, model: AuditingModel) -> Verdict:
    """Once all is calm and every row is closed."""
    database = stage.store.database
    rows = await database["usage"].find().to_list(None)
    runs = {run["_id"]: run async for run in stage.store.runs.find()}
    verdict = Verdict(requests=len(model.asked), wrong=[*model.wrong])
    verdict.wrong += [f"still open: {row['_id']}" for row in rows if "open_until" in row]
    asked_by, rows_by = _grouped(model.asked, _caller_of_request), _grouped(rows, _caller_of_row)
    for caller in sorted({*asked_by, *rows_by}):
        _judge_calls(caller, asked_by[caller], rows_by[caller], verdict)
    by_number = {asked.number: asked for asked in model.asked}
    for row in rows:
        verdict.wrong += [f"{row['_id']}: {fault}" for fault in _row(row, by_number, runs[row["run_id"]])]
    return verdict


def _grouped(found: Iterable[Any], key: Any) -> dict[Caller, list[Any]]:
    groups: dict[Caller, list[Any]] = defaultdict(list)
    for each in found:
        groups[key(each)].append(each)
    return groups


def _caller_of_request(asked: Asked) -> Caller:
    return asked.run_id, asked.agent, asked.provider, asked.model


def _caller_of_row(row: Row) -> Caller:
    return row["run_id"], row["agent"], row["provider"], row["model"]


def _judge_calls(caller: Caller, asked: Sequence[Asked], rows: Sequence[Row], verdict: Verdict) -> None:
    """Whatever was asked of one model by one agent in one run. Only rows of calls that ended with their worker or their
    run may stand for an answer which is not reported, or for a call whose request was never sent."""
    ends = Counter(each.end for each in asked)
    kinds = Counter(kind_of(row) for row in rows)
    lost = kinds[WORKER_LOST] + kinds[CANCELLED]
    served = {each.number for each in asked if each.end == "served"}
    told = Counter(number_of(row) for row in rows if row["status"] == "reported")
    explained = {
        "never sent": len(rows) - len(asked),
        "served, not reported": len(served) - kinds["reported"],
        "answered without usage, not estimated": ends["quiet"] - kinds["estimated"],
        "failed, not missing": ends["refused"] + ends["broken"] - kinds["failed"],
    }
    if min(explained.values()) < 0 or sum(explained.values()) + ends["gone"] + ends["asked"] != lost:
        verdict.wrong.append(f"{caller}: {dict(ends)} became {dict(kinds)}")
    guessed = Counter(row["output_tokens"] for row in rows if row["status"] == "estimated")
    if not guessed <= Counter(-(-each.characters // CHARACTERS_PER_TOKEN) for each in asked if each.end == "quiet"):
        verdict.wrong.append(f"{caller}: estimated {sorted(guessed.elements())}")
    if not told.keys() <= served or max(told.values(), default=1) > 1:
        verdict.wrong.append(f"{caller}: served {sorted(served)}, reported {sorted(told.elements())}")
    verdict.served += len(served)
    verdict.unanswered += explained["served, not reported"]
    verdict.lost += Counter({kind: kinds[kind] for kind in (WORKER_LOST, CANCELLED)})


def kind_of(row: Row) -> str:
    if row["status"] != "missing":
        return str(row["status"])
    return row["error"] if row["error"] in (WORKER_LOST, CANCELLED) else "failed"


def _row(row: Row, asked: Mapping[int, Asked], run: Row) -> Iterable[str]:
    """What one row says: whose call it was, what it took, and why it has no answer."""
    if any(row[name] != run[name] for name in ("app_id", "workflow", "user_id", "chat_id")):
        yield "of somebody else's run"
    if row["trigger_type"] != run["trigger"]["type"]:
        yield f"trigger type {row['trigger_type']}"
    tokens = Tokens(*(row[name] for name in TOKENS))
    cost = tokens.input * NANO_USD_OF_INPUT + tokens.output * NANO_USD_OF_OUTPUT
    right = {
        "reported": lambda: (tokens, row["cost_nano_usd"]) == (asked[number_of(row)].tokens, cost),
        "estimated": lambda: tokens.input > 0 and tokens.output > 0 and row["cost_nano_usd"] == cost,
        "missing": lambda: (tokens, row["cost_nano_usd"], row["ok"]) == (Tokens(), None, False),
    }
    if not right[row["status"]]():
        yield f"{row['status']}: {tokens} for {row['cost_nano_usd']} nano-dollars"
    ends = {line["ended"] for line in run["history"] if line["token"] == int(row["_id"].split(":")[1])}
    if not ends & CUT_OFF_BY.get(row["error"], ends):
        yield f"{row['error']}, and its owner's work ended with {ends}"
