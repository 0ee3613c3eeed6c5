"""Which optional library a provider of the models file needs, and whether it is installed. Loads none of them."""

from collections.abc import Mapping
from importlib.util import find_spec

# Provider: the module to import, which the extra of the provider's name installs. OpenAI's comes with AG2 here, and
# xAI is asked through it.
LIBRARY_MODULES: Mapping[str, str] = {
    "anthropic": "anthropic",
    "bedrock": "aiobotocore",
    "gemini": "google.genai",
    "mistral": "mistralai.client",
    "ollama": "ollama",
}


def describe_missing_library(provider: str) -> str | None:
    """What to say of a provider whose library is not installed; None when nothing is missing."""
    module = LIBRARY_MODULES.get(provider)
    if module is None or _is_installed(module):
        return None
    command = install_command(provider)
    return f"the library of provider {provider} is not installed; install Unattended with the extra: {command}"


def install_command(provider: str) -> str:
    return f"pip install -c constraints.txt -e '.[{provider}]'"


def _is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ImportError:  # the package around it, such as `google`, is not there
        return False
