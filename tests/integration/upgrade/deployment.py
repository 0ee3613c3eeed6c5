"""The deployment that the version before left behind: its packages, settings and budgets, as both versions are given
them.

The answers of the recording, and the model server of the test, know agents by their names.
"""

from pathlib import Path
from typing import Any

from tests.chaos.counting_model import known_relay

DATABASE = "recorded_deployment"  # written as this in the data, wherever the database is named
CAPS = "app:busy=1,workflow:Long=1,rate:paced=1/m"
HOOK_SECRET = "a-bearer-of-the-recording"
BILLING_SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
EVERY_S = 20
LONG = ("First", "Second", "Third", "Fourth")

PAY = """
from workflows.tools import use_ui_tool

async def pay(amount: int) -> dict:
    asked = await use_ui_tool("Refund", {"amount": amount}, title=f"Refund {amount} EUR?", choices=["yes", "no"])
    return {"paid": amount if asked["choice"] == "yes" else 0}
"""
# A tool that ends its worker, or never returns, while the recording says so.
POISON = """
import asyncio, os, signal

async def swallow() -> str:
    dose = os.environ.get("RECORDED_POISON", "")
    if dose and open(dose).read() == "deadly":
        os.kill(os.getpid(), signal.SIGKILL)
    if dose:
        await asyncio.sleep(3600)
    return "harmless"
"""


def packages(database: str) -> dict[str, dict[str, Any]]:
    return {
        "Short": {**known_relay("Short", ["Writer"]), "triggers": {"triggers": [_hook(), _clock(), _paused_clock()]}},
        "Long": known_relay("Long", [*LONG]),
        "Chain": {**known_relay("Chain", ["Follower"]), "triggers": {"triggers": [_chain()]}},
        "Orders": {**known_relay("Orders", ["Packer"]), "triggers": {"triggers": [_changes(database)]}},
        "Quiet": {**known_relay("Quiet", ["Merger"]), "triggers": {"triggers": [_merged_changes(database)]}},
        "Till": with_tool(known_relay("Till", ["Payer"]), "Payer", "pay", PAY),
        "Poison": with_tool(known_relay("Poison", ["Taster"]), "Taster", "swallow", POISON),
        "Limited": known_relay("Limited", ["Limited"]),
        "Down": known_relay("Down", ["Down"]),
        "Refused": known_relay("Refused", ["Refused"]),
        "Visits": _visits(),
        "Doomed": known_relay("Doomed", ["Doomed"]),
    }


def with_tool(package: dict[str, Any], agent: str, tool: str, source: str) -> dict[str, Any]:
    declared = {"tools": [{"agent": agent, "file": f"{tool}.py", "function": tool}]}
    return {**package, "tools": declared, f"tools/{tool}.py": source}


def _visits() -> dict[str, Any]:
    """Its state outlives its runs: only a run of the recording sets it."""
    package = known_relay("Visits", ["Porter"])
    came = {"type": "agent_text", "agent": "Porter", "match": {"equals": ANSWER["text"]}}
    source = {"type": "state", "default": False, "persist": True, "persist_key": "none", "triggers": [came]}
    package["context_variables"]["definitions"] = {"came": {"type": "boolean", "source": source}}
    return package


def _hook() -> dict[str, Any]:
    return {
        "name": "paid",
        "type": "webhook",
        "apps": ["acme"],
        "verify": {"scheme": "bearer", "secret": "env:HOOK_SECRET"},
        "dedupe": "=id",
        "input": {"order": "=id"},
    }


def _clock() -> dict[str, Any]:
    """Each tick that was missed is caught up with: none may be fired twice."""
    return {
        "name": "ticking",
        "type": "schedule",
        "every": f"{EVERY_S}s",
        "apps": ["clock"],
        "overlap": "allow",
        "misfire": {"grace": "60s", "policy": "all", "max": 400},
    }


def _paused_clock() -> dict[str, Any]:
    return {"name": "stopped", "type": "schedule", "every": "1s", "apps": ["clock"], "overlap": "allow"}


def _chain() -> dict[str, Any]:
    return {"name": "after", "type": "run_finished", "workflow": "Visits", "input": {"after": "=run_id"}}


def _changes(database: str) -> dict[str, Any]:
    return {
        "name": "changed",
        "type": "database_condition",
        "database": database,
        "collection": "orders",
        "apps": ["acme"],
        "input": {"order": "=documentKey._id"},
    }


def _merged_changes(database: str) -> dict[str, Any]:
    return {**_changes(database), "name": "settled", "collection": "carts", "debounce": "20s"}


RUN_TIME_TRIGGERS = {
    "evening": {"name": "evening", "type": "schedule", "every": f"{EVERY_S}s", "overlap": "allow"},
    "frozen": {"name": "frozen", "type": "schedule", "every": "1s", "overlap": "allow"},
    "posted": {"name": "posted", "type": "webhook", "verify": {"scheme": "bearer", "secret": "env:HOOK_SECRET"}},
}

USAGE = {"input": 100, "output": 20}
ANSWERS: dict[str, Any] = {
    "Third": [{"text": "never", "delay_s": 3600}],
    "Packer": [{"text": "never", "delay_s": 3600}],
    "Doomed": [{"text": "never", "delay_s": 3600}],
    "Payer": [{"tool_calls": [{"name": "pay", "arguments": {"amount": 7}}], "usage": USAGE}, {"text": "paid"}],
    "Taster": [{"tool_calls": [{"name": "swallow", "arguments": {}}], "usage": USAGE}, {"text": "tasted"}],
    "Limited": [{"error": {"status": 429, "retry_after_s": 20}}],
    "Down": [{"error": {"status": 503}}] * 9,
    "Refused": [{"error": {"status": 400}}],
}
ANSWER = {"text": "answered", "usage": USAGE}


def environment(folder: Path, *, mongodb_url: str, redis_url: str) -> dict[str, str]:
    """The settings of the recorded deployment, for roles and commands of any version."""
    return {
        "UNATTENDED_MONGODB_URL": mongodb_url,
        "UNATTENDED_REDIS_URL": redis_url,
        "UNATTENDED_DATABASE": DATABASE,
        "UNATTENDED_QUEUE": DATABASE,
        "UNATTENDED_PACKAGES": str(folder / "packages"),
        "UNATTENDED_MODELS": str(folder / "models.yaml"),
        "UNATTENDED_DATA_DIR": str(folder),
        "UNATTENDED_LEASE_S": "3",
        "UNATTENDED_MAX_ATTEMPTS": "2",
        "UNATTENDED_REPUBLISH_AFTER_S": "2",
        "UNATTENDED_CAPS": CAPS,
        "UNATTENDED_BILLING_URL": "http://127.0.0.1:9/usage",  # where no server listens: batches stay in the outbox
        "UNATTENDED_BILLING_SECRET": "env:BILLING_SECRET",
        "BILLING_SECRET": BILLING_SECRET,
        "HOOK_SECRET": HOOK_SECRET,
    }
