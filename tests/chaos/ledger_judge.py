"""The judge of the ledger: what a model server was asked and has served, against what stands in the rows.

Each row says which answer it is of, by what it says of input. So nothing is compared by sums alone: an answer has one
row or none, and it has none only where its call was cut off, with its worker or by somebody who cancelled the run.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from accounting.ledger.ledger_rows import WORKER_LOST
from accounting.token_normalization import CHARACTERS_PER_TOKEN
from accounting.totals.row_sums import TOKENS
from accounting.usage import Tokens
from tests.chaos.auditing_model import AuditedCall, AuditingModel
from tests.chaos.auditing_replies import PARTS, number_of
from tests.integration.stage import Stage

Row = Mapping[str, Any]
Caller = tuple[str, str, str, str]
Found = TypeVar("Found")

CANCELLED = "Cancelled"
CUT_OFF = (WORKER_LOST, CANCELLED)
# How the work of a run's owner has ended, of which a row says so.
CUT_OFF_BY = {WORKER_LOST: {"worker_lost"}, CANCELLED: {"cancelled", "worker_lost", "handed_back"}}
NANO_USD_OF_INPUT, NANO_USD_OF_OUTPUT = 1_000, 2_000  # the prices of a stage's models


@dataclass
class LedgerVerdict:
    requests: int = 0
    served: int = 0
    cut_off: Counter[str] = field(default_factory=Counter)  # rows of calls that ended with their worker or their run
    unreported: int = 0  # of these, answers that the server has sent
    wrong: list[str] = field(default_factory=list)

    def numbers(self) -> dict[str, int]:
        return {
            "model calls": self.requests,
            "served": self.served,
            "lost with a worker": self.cut_off[WORKER_LOST],
            "cut off by a cancellation": self.cut_off[CANCELLED],
            "of them answered": self.unreported,
        }


async def judge_ledger(stage: Stage, model: AuditingModel) -> LedgerVerdict:
    """Once all is calm and every row is closed."""
    database = stage.store.database
    rows = await database["usage"].find().to_list(None)
    runs = {run["_id"]: run async for run in stage.store.runs.find()}
    verdict = LedgerVerdict(requests=len(model.calls), wrong=[*model.wrong])
    asked_by, rows_by = _group_by(model.calls, _caller_of_request), _group_by(rows, _caller_of_row)
    for caller in sorted({*asked_by, *rows_by}):
        verdict.wrong += _judge_calls(asked_by[caller], rows_by[caller], verdict)
    for row in rows:
        verdict.wrong += [f"{row['_id']}: {fault}" for fault in _judge_row(row, model.calls, runs[row["run_id"]])]
    rows_of = _group_by(rows, _owner)
    for owner, own in rows_of.items():
        cut_off = sum(row["error"] in CUT_OFF for row in own)
        if cut_off > (PARTS if own[0]["workflow"] == "Team" else 1):
            verdict.wrong.append(f"{owner}: {cut_off} calls were in flight at once")
    async for turn in database["turns"].find():
        told = [row for row in rows_of[turn["run_id"], turn["token"]] if row["agent"] == turn["agent"]]
        took = {kind: sum(row[f"{kind}_tokens"] for row in told) for kind in turn["tokens"]}
        verdict.wrong += [] if took == turn["tokens"] else [f"turn {turn['_id']}: {turn['tokens']}, by its rows {took}"]
    return verdict


def _group_by(items: Iterable[Found], key: Callable[[Found], Any]) -> dict[Any, list[Found]]:
    groups: dict[Any, list[Found]] = defaultdict(list)
    for each in items:
        groups[key(each)].append(each)
    return groups


def _caller_of_request(call: AuditedCall) -> Caller:
    return call.run_id, call.agent, call.provider, call.model


def _caller_of_row(row: Row) -> Caller:
    return row["run_id"], row["agent"], row["provider"], row["model"]


def _owner(row: Row) -> tuple[str, int]:
    return row["run_id"], int(row["_id"].split(":")[1])


def _judge_calls(calls: Sequence[AuditedCall], rows: Sequence[Row], verdict: LedgerVerdict) -> Iterable[str]:
    """Of one model, by one agent, in one run. What is left over of the server's count has a row that was cut off."""
    ends = Counter(each.end for each in calls)
    kinds = Counter(_kind_of(row) for row in rows)
    served = {each.number for each in calls if each.end == "served"}
    left_over = {
        "rows beside requests": len(rows) - len(calls),
        "served and not reported": len(served) - kinds["reported"],
        "answered without usage and not estimated": ends["quiet"] - kinds["estimated"],
        "failed and not missing": ends["refused"] + ends["broken"] - kinds["failed"],
    }
    verdict.served += len(served)
    verdict.unreported += left_over["served and not reported"]
    verdict.cut_off += Counter({kind: kinds[kind] for kind in CUT_OFF})
    # All of these together, and what nobody was there for any more, are as many as rows that were cut off.
    if min(left_over.values()) < 0:
        yield f"{calls[:1] or rows[:1]}: {dict(ends)} became {dict(kinds)}"
    told = Counter(number_of(row) for row in rows if row["status"] == "reported")
    if not told.keys() <= served or max(told.values(), default=1) > 1:
        yield f"{calls[:1] or rows[:1]}: served {sorted(served)}, reported {sorted(told.elements())}"
    guessed = Counter(row["output_tokens"] for row in rows if row["status"] == "estimated")
    if not guessed <= Counter(-(-each.characters // CHARACTERS_PER_TOKEN) for each in calls if each.end == "quiet"):
        yield f"{calls[:1] or rows[:1]}: estimated {sorted(guessed.elements())}"


def _kind_of(row: Row) -> str:
    if row["status"] != "missing":
        return str(row["status"])
    return row["error"] if row["error"] in CUT_OFF else "failed"


def _judge_row(row: Row, call: Sequence[AuditedCall], run: Row) -> Iterable[str]:
    """Whose call it was, what it took, and why it has no answer."""
    if "open_until" in row:
        yield "still open"
    if any(row[name] != run[name] for name in ("app_id", "workflow", "user_id", "chat_id")):
        yield "of somebody else's run"
    if row["trigger_type"] != run["trigger"]["type"]:
        yield f"trigger type {row['trigger_type']}"
    tokens = Tokens(*(row[name] for name in TOKENS))
    cost = tokens.input * NANO_USD_OF_INPUT + tokens.output * NANO_USD_OF_OUTPUT
    said = (tokens, row["cost_nano_usd"])
    right = {
        "reported": lambda: said == (call[number_of(row)].tokens, cost),
        "estimated": lambda: said == (tokens, cost) and tokens.input > 0 and tokens.output > 0,
        "missing": lambda: said == (Tokens(), None) and not row["ok"],
    }
    if not right[row["status"]]():
        yield f"{row['status']}: {tokens} for {row['cost_nano_usd']} nano-dollars"
    ends = {line["ended"] for line in run["history"] if line["token"] == _owner(row)[1]}
    if not ends & CUT_OFF_BY.get(row["error"], ends):
        yield f"{row['error']}, and its owner's work ended with {ends}"
