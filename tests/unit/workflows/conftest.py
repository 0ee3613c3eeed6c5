"""Tests of packages and chats. AG2 is imported here as the product does it, without every library it can use."""

import workflows.chat  # noqa: F401 -- the import is all there is to do
