"""Context sanitizer: hides values and restores fixed names after package code ran."""

import logging

from workflows.chat.chat_state import Conversation
from workflows.context.reads.computed_values import recompute_variables
from workflows.context.redaction import remove_hidden
from workflows.context.values.storable_values import make_plain
from workflows.context.values.value_types import is_same_value

log = logging.getLogger(__name__)


def sanitize_context(chat: Conversation, *, source: str) -> None:
    """Cleans the context before it is routed on, stored or shown to a model.

    `source` names the code that had the context."""
    remove_hidden_values(chat, source)
    make_plain(chat.context, chat.redactor.redact_data)
    restore_fixed_values(chat, source)


def sanitize_and_recompute(chat: Conversation, *, source: str) -> None:
    """Sanitizes between two turns, where no derivation recomputes the variables."""
    sanitize_context(chat, source=source)
    recompute_variables(chat.package, chat.context, chat.suppressed_names)


def remove_hidden_values(chat: Conversation, source: str) -> None:
    """Removes hidden values. A tool is Python and may read the environment itself."""
    names = remove_hidden(chat.context, chat.suppressed_names, chat.redactor, fixed=chat.fixed_values)
    if names:
        extra = {"run_id": chat.fixed_values.get("run_id"), "agent": source, "names": names}
        log.warning("environment_variables_purged", extra=extra)


def restore_fixed_values(chat: Conversation, source: str) -> None:
    changed = [name for name, value in chat.fixed_values.items() if not is_same_value(chat.context.get(name), value)]
    if changed:
        log.warning("fixed_names_restored", extra={"agent": source, "names": changed})
        chat.context.update({name: chat.fixed_values[name] for name in changed})
