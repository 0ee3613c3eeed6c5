"""The script: answers from a file, without a server."""

from accounting.normalising import NORMALIZERS
from workflows.chat.errors import ModelError
from workflows.chat.providers.provider import OpenModel, Provider
from workflows.chat.script import ScriptConfig, read_script
from workflows.models_file import ScriptModel


def open_model(spec: ScriptModel, key: str | None) -> OpenModel:
    del key
    return OpenModel(ScriptConfig(read_script(spec.file)), _close_nothing)


async def _close_nothing() -> None:
    return None


def explain(error: Exception) -> ModelError | None:
    """A script's own errors are `ModelError`s already."""
    del error
    return None


PROVIDER = Provider(open_model, explain, NORMALIZERS["script"], is_paid=False)
