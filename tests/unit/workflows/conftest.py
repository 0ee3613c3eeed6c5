"""Tests of packages and chats. Imports AG2 as the product does, without its optional libraries."""

import workflows.chat  # noqa: F401 -- the import is all there is to do
