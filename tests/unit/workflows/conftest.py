"""Tests of packages and chats.

AG2 is imported here as the product does it, without its optional libraries.
"""

import workflows.chat  # noqa: F401 -- the import is all there is to do
