"""Libraries of providers: loaded for the models that use them, and by nothing else."""

import subprocess
import sys

import pytest

pytestmark = pytest.mark.integration

PROGRAM = """
import importlib, json, sys
for name in {modules!r}:
    importlib.import_module(name)
{then}
print(json.dumps([name for name in ("ag2", "openai", "anthropic", "google.genai", "ollama") if name in sys.modules]))
"""
OPENED = """
from workflows.chat.models import Models
from workflows.models_file import GeminiModel, OpenAIModel
Models({"a": OpenAIModel(provider="openai", model="m")}, str).get("a").create()
"""
USED_BY_A_PACKAGE = """
from ag2.config import AnthropicConfig
AnthropicConfig(model="m", api_key="k").create()
"""


@pytest.mark.parametrize(
    ("modules", "then", "loaded"),
    [
        (["ops.unmet_needs", "ops.doctor.packages", "workflows.models_file", "triggers.gateway.app"], "", "[]"),
        (["workflows.chat.models"], "", '["ag2", "openai"]'),
        (["workflows.chat.models"], OPENED, '["ag2", "openai"]'),
        (["workflows.chat.models"], USED_BY_A_PACKAGE, '["ag2", "openai", "anthropic"]'),
        (["workflows.chat.models", "workflows.chat.providers.gemini"], "", '["ag2", "openai", "google.genai"]'),
    ],
    ids=["no chat", "chat", "a model of OpenAI", "a package's own use", "a model of Google"],
)
def test_a_library_is_loaded_on_first_use(modules: list[str], then: str, loaded: str) -> None:
    program = PROGRAM.format(modules=modules, then=then)

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)

    assert done.stdout.strip() == loaded
