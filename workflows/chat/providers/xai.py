"""xAI's chat completions: OpenAI's protocol and library.

xAI's own library speaks gRPC. It wants versions of other packages that are older than those we pin, and AG2 cannot tell
it another address.
"""

from functools import partial

from accounting.normalising import NORMALISE
from workflows.chat.providers.openai import explain, open_model
from workflows.chat.providers.provider import Provider

NAME = "xai"
XAI = "https://api.x.ai/v1"

PROVIDER = Provider(partial(open_model, address=XAI), partial(explain, NAME), NORMALISE[NAME])
