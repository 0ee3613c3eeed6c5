"""Optional libraries of model providers, and whether they are installed.

This module loads none of them.
"""

from collections.abc import Mapping
from importlib.util import find_spec

# By provider, the module that the extra of the same name installs. OpenAI's library is installed with AG2, and xAI
# uses it too.
LIBRARY_MODULES: Mapping[str, str] = {
    "anthropic": "anthropic",
    "bedrock": "aiobotocore",
    "gemini": "google.genai",
    "mistral": "mistralai.client",
    "ollama": "ollama",
}


def describe_missing_library(provider: str) -> str | None:
    """Returns a message if the provider's library is not installed, else None."""
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
    except ImportError:  # its parent package, such as `google`, does not exist
        return False
