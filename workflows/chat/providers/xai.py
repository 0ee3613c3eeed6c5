"""xAI's chat completions: OpenAI's protocol and library.

xAI's own library uses gRPC. It needs older versions of packages than those we pin, and AG2 cannot pass it another
address.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any

from accounting.token_normalization import NORMALIZERS
from workflows.chat.providers.openai import explain, open_model
from workflows.chat.providers.provider import Provider

NAME = "xai"
DEFAULT_ADDRESS = "https://api.x.ai/v1"


def cache_key_header(key: str) -> Mapping[str, Any]:
    """Returns the key as a header: chat completions have no parameter for it."""
    return {"extra_headers": {"x-grok-conv-id": key}}


PROVIDER = Provider(
    partial(open_model, address=DEFAULT_ADDRESS, cache_option=cache_key_header),
    partial(explain, NAME),
    NORMALIZERS[NAME],
)
