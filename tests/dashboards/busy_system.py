"""A busy system for dashboards: shipped packages and a faulty one, three apps, all types of triggers, and budgets.

Its models are slow, refuse calls, or report no usage."""

import http.client
import json
import secrets
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import yaml
from pymongo import MongoClient

from ops.demo.demo_scenario import SECRET_VARIABLE, new_secret, prepare_packages
from ops.free_ports import find_free_address
from tests.e2e.product import as_json, descendants, environment, started_command, wait_until
from tests.integration.model_server import Answer, ModelServer, call, completion, model_server, refusal, usage
from tests.integration.stage import write_package
from triggers.webhook.schemes.standard_webhooks import decode_secret, sign

SAY_READY = ("gateway", "scheduler", "watcher", "worker")  # the exporter is ready after a successful scrape
FORM = "application/x-www-form-urlencoded"
TOO_LARGE_BYTES = 9_000_000  # twice this document in one change event exceeds MongoDB's limit

Document = Mapping[str, Any]

HELPDESK: Document = {
    "orchestrator": {
        "workflow_name": "Helpdesk",
        "orchestration_pattern": "DefaultPattern",
        "human_in_the_loop": False,
        "initial_agent": "Sorter",
        "initial_message": "A ticket came in.",
        "limits": {"max_turns": 8},
        "inputs": {"ticket": {"type": "string", "default": "printer"}},
    },
    "agents": {
        "agents": [
            {"name": "Sorter", "system_message": "You sort one ticket.", "model": "small"},
            {"name": "Resolver", "system_message": "You resolve one ticket.", "model": "house"},
        ]
    },
    "context_variables": {"definitions": {}, "agents": {"Sorter": {"variables": ["ticket"]}}},
    "handoffs": {
        "handoff_rules": [
            {"source_agent": "Sorter", "target_agent": "Resolver", "handoff_type": "after_work"},
            {"source_agent": "Resolver", "target_agent": "terminate", "handoff_type": "after_work"},
        ]
    },
    "tools": {
        "tools": [{"agent": "Sorter", "file": "look_up.py", "function": "look_up", "description": "Looks it up"}]
    },
    "tools/look_up.py": """
from workflows.tools import use_ui_tool


async def look_up(ticket: str) -> str:
    if ticket == "unknown":
        raise LookupError("no such ticket")
    if ticket == "expensive":
        await use_ui_tool("Approve", {"ticket": ticket})
    return "printer, third floor"
""",
    "triggers": {
        "triggers": [
            {
                "name": "inbox",
                "type": "schedule",
                "every": "4s",
                "apps": ["acme", "globex", "initech", "hooli"],
                "overlap": "allow",
                "misfire": {"grace": "0s", "policy": "latest"},
            },
            {"name": "apology", "type": "run_finished", "workflow": "DailyDigest", "outcome": "failed"},
        ]
    },
}
CLOCKS = (
    {"name": "every-four-seconds", "type": "schedule", "every": "4s", "apps": ["acme"], "input": {"region": "eu"}},
    {"name": "weekday-morning", "type": "schedule", "cron": "30 6 * * 1-5", "apps": ["acme"]},
)
BUDGETS: tuple[Document, ...] = (
    {"app_id": "acme", "window": "day", "unit": "usd", "limit": 0.05, "soft": True},
    {"app_id": "*", "window": "month", "unit": "usd", "limit": 2, "soft": True},  # a hard budget would refuse `house`
    {"workflow": "DailyDigest", "window": "day", "unit": "tokens", "limit": 200000},
    {"app_id": "initech", "window": "hour", "unit": "tokens", "limit": 12000},
)


@dataclass(slots=True)
class ModelBehaviour:
    """Return the model server's delay: short for the test, varying for pictures."""

    slowness: float = 0.05


@dataclass(frozen=True, slots=True)
class BusySystem:
    folder: Path
    env: Mapping[str, str]
    gateway: str
    mongodb_url: str
    key: str
    mood: ModelBehaviour
    pid: int

    def call_api(self, method: str, path: str, body: Document) -> None:
        """Call the API, as a command takes a second."""
        headers = {"authorization": f"Bearer {self.key}", "content-type": "application/json"}
        status = self._call(method, f"/v1{path}", json.dumps(body).encode(), headers)
        assert status < 300, (path, status)

    def enqueue(self, ticket: str, *, app: str = "acme") -> None:
        self.call_api("POST", "/runs", {"workflow": "Helpdesk", "app_id": app, "input": {"ticket": ticket}})

    def do_each_thing_once(self) -> None:
        """Cause events that are needed once."""
        for budget in BUDGETS:
            self.call_api("PUT", "/budgets", budget)
        self.enqueue("poison")
        self.enqueue("expensive")  # waits for a person until the end
        self.call_api("POST", "/triggers/Helpdesk/inbox/pause?app_id=hooli", {"note": "an audit"})
        with MongoClient[dict[str, Any]](self.mongodb_url) as client:
            orders = client["shop"]["orders"]
            orders.insert_one({"_id": "large", "app_id": "acme", "status": "open", "scan": b"x" * TOO_LARGE_BYTES})
            orders.update_one({"_id": "large"}, {"$set": {"scan": b"y" * TOO_LARGE_BYTES}})

    def do_some_things_again(self, number: int) -> None:
        """Cause events until the test ends."""
        with MongoClient[dict[str, Any]](self.mongodb_url) as client:
            for status in ("paid", "open"):
                order = {"app_id": ("acme", "globex")[number % 2], "status": status, "total": 184.5, "currency": "EUR"}
                client["shop"]["orders"].insert_one({"_id": f"order-{secrets.token_hex(6)}", **order})
        self._close_the_day()
        self._call("POST", "/hooks/globex/DailyDigest/warehouse-closed", b"{}", {"content-type": "application/json"})
        form = urlencode({"email": "not an address"}).encode()
        self._call("POST", "/forms/acme/OrderFollowUp/ask-for-follow-up", form, {"content-type": FORM})
        if number % 7 == 0:
            self.enqueue("unknown", app="globex")

    def kill_worker(self) -> None:
        """Kill a worker; the one that replaces it takes over its runs."""
        for each in descendants(self.pid):
            if each.cmdline()[-1:] == ["worker"]:
                each.kill()

    def _close_the_day(self) -> None:
        """Deliver a webhook twice, as senders do."""
        body = json.dumps({"type": "day.closed", "data": {"region": "us"}}).encode()
        delivery, stamp = f"msg_{secrets.token_hex(8)}", str(int(time.time()))
        signature = sign(decode_secret(self.env[SECRET_VARIABLE]) or b"", f"{delivery}.{stamp}.".encode() + body)
        headers = {"webhook-id": delivery, "webhook-timestamp": stamp, "webhook-signature": f"v1,{signature}"}
        for _ in range(2):
            self._call(
                "POST",
                "/hooks/globex/DailyDigest/warehouse-closed",
                body,
                {"content-type": "application/json", **headers},
            )

    def _call(self, method: str, path: str, body: bytes, headers: Mapping[str, str]) -> int:
        connection = http.client.HTTPConnection(self.gateway, timeout=10)
        try:
            connection.request(method, path, body, dict(headers))
            answer = connection.getresponse()
            answer.read()
            return answer.status
        finally:
            connection.close()


def targets_file(folder: Path) -> Path:
    """Return the file in which `unattended up` lists the addresses of its roles."""
    return folder / "data" / "prometheus" / "targets.json"


@contextmanager
def busy_system(folder: Path) -> Iterator[BusySystem]:
    mood = ModelBehaviour()
    served = ModelServer()
    with model_server(lambda number: _answer(served.requests[number], number, mood), keep_alive=True) as running:
        served.requests = running.requests
        env = environment(
            UNATTENDED_DATA_DIR=str(folder / "data"),
            UNATTENDED_LISTEN=str(find_free_address()),
            UNATTENDED_METRICS_LISTEN=str(find_free_address()),
            UNATTENDED_PACKAGES=str(_packages(folder)),
            UNATTENDED_MODELS=str(_models(folder, running.url)),
            UNATTENDED_LEASE_S="4",
            UNATTENDED_CONCURRENCY="20",
            UNATTENDED_MAX_ATTEMPTS="2",
            UNATTENDED_CAPS="workflow:Helpdesk=4",
            UNATTENDED_BILLING_URL="http://127.0.0.1:9/bills",
            UNATTENDED_BILLING_SECRET=f"env:{SECRET_VARIABLE}",
            **{SECRET_VARIABLE: new_secret()},
        )
        with started_command("up", cwd=folder, env=env) as process:
            answers = folder / "output"
            wait_until(
                "every role is ready",
                lambda: all(f"{role}_ready" in answers.read_text() for role in SAY_READY),
                within_s=120,
            )
            services = json.loads((folder / "data" / "services.json").read_text())
            key = as_json("keys", "create", "busy", cwd=folder, env=env)["key"]
            gateway, mongodb_url = env["UNATTENDED_LISTEN"], services["mongodb_url"]
            yield BusySystem(folder, env, gateway, mongodb_url, key, mood, process.pid)


def _packages(folder: Path) -> Path:
    packages = prepare_packages(folder)
    write_package(packages, "Helpdesk", HELPDESK)
    clock = packages / "DailyDigest" / "triggers.yaml"
    triggers = [each for each in yaml.safe_load(clock.read_text())["triggers"] if each["type"] != "schedule"]
    clock.write_text(yaml.safe_dump({"triggers": [*CLOCKS, *triggers]}))
    return packages


def _models(folder: Path, url: str) -> Path:
    """Write a models file; `house` has no price."""
    names = {"default": "gpt-5-mini", "small": "gpt-5.6-luna", "house": "house-7b"}
    models = {alias: {"provider": "openai", "model": model, "base_url": url} for alias, model in names.items()}
    (folder / "models.yaml").write_text(yaml.safe_dump({"models": models}))
    return folder / "models.yaml"


# An agent's answers by the start of its prompt: a tool call, then a text.
ANSWER_TEXT: Mapping[str, tuple[tuple[str, Mapping[str, str]] | None, str]] = {
    "You collect": (("read_numbers", {"region": "eu"}), "Orders 128 (+9 %), refunds 3.\nNEXT"),
    "You write a digest": (None, "Good morning. Orders rose by 9 % to 128."),
    "You review": (None, "The order is paid and above 100 EUR.\nFOLLOW UP"),
    "You write to the customer": (("note_follow_up", {"kind": "thank_you"}), "Dear customer, thank you."),
    "You sort": (("look_up", {"ticket": "printer"}), "A printer, third floor."),
    "You resolve": (None, "Switch it off and on again."),
}


def _answer(request: Mapping[str, Any], number: int, mood: ModelBehaviour) -> Answer:
    asked = json.dumps(request["messages"])
    time.sleep(mood.slowness * (0.5 + (number * 7 % 11) / 5))
    if "poison" in asked or number % 23 == 22:
        return refusal(503)
    tool, text = next(answers for prompt, answers in ANSWER_TEXT.items() if prompt in asked)
    size = len(asked) // 4
    took = usage(size, 10 + number % 30, cached=size // 2, reasoning=number % 8)
    if tool and request["messages"][-1]["role"] != "tool":
        name, arguments = tool
        special = next((ticket for ticket in ("unknown", "expensive") if ticket in asked), None)
        wanted = arguments if special is None else {"ticket": special}
        return completion(None, tool_calls=[call(name, json.dumps(wanted))], usage=took)
    forgets = request["model"] == "house-7b" and number % 2 == 0
    return completion(text, usage=None if forgets else took)
