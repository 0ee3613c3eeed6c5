"""A model server that knows who asks: it counts each run's calls by agent, and takes a while for each answer."""

import json
import re
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.integration.model_server import Answer, ModelServer, completion, model_server, usage
from tests.integration.stage import Stage, relay

RUN = re.compile(r"run_[0-9A-Z]{26}")
AGENT = re.compile(r"You are (\w+)\.")

CallCounts = Counter[tuple[str, str]]


def known_relay(name: str, agents: list[str]) -> dict[str, Any]:
    """A relay whose prompts name the run: so the server knows who asks."""
    package = relay(name, agents)
    package["context_variables"] = {
        "definitions": {},
        "agents": {agent: {"variables": ["run_id"]} for agent in agents},
    }
    return package


@contextmanager
def counting_model(stage: Stage, *, takes_s: float) -> Iterator[CallCounts]:
    """The stage's only model. What is asked is counted before it is answered."""
    asked: CallCounts = Counter()
    counting = threading.Lock()
    server = ModelServer()

    def plan(number: int) -> Answer:
        request = json.dumps(server.requests[number]["messages"])
        server.requests[number] = {}  # thousands of them
        run, agent = RUN.search(request), AGENT.search(request)
        assert run is not None, request[:500]
        assert agent is not None, request[:500]
        with counting:
            asked[run[0], agent[1]] += 1
        time.sleep(takes_s)
        return completion(f"{agent[1]} has spoken", usage=usage(10, 2))

    with model_server(plan, keep_alive=True) as running:
        server = running
        stage.models({"default": {"provider": "openai", "model": "stub", "base_url": running.url}})
        yield asked
