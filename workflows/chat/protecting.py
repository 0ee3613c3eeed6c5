"""Protecting: hidden values, and the names that say whose run it is, after a package's code has had the context."""

import logging
from typing import Any

from workflows.chat.live import Conversation
from workflows.context.computing import recompute
from workflows.context.redaction import take_out
from workflows.context.storable_values import make_plain

log = logging.getLogger(__name__)


def protect(chat: Conversation, *, after: str) -> None:
    """Before anybody routes on the context, stores it or shows it to a model. `after`: whose code had it."""
    hide_again(chat, after)
    make_plain(chat.context, chat.redactor.data)
    restore_fixed(chat, after)


def settle(chat: Conversation, *, after: str) -> None:
    """The same between two turns, where nothing is derived that would compute anew."""
    protect(chat, after=after)
    recompute(chat.package, chat.context, chat.suppressed)


def hide_again(chat: Conversation, after: str) -> None:
    """A tool is Python and reads the environment itself: what it put into the context is taken out again."""
    names = take_out(chat.context, chat.suppressed, chat.redactor, fixed=chat.fixed)
    if names:
        extra = {"run_id": chat.fixed.get("run_id"), "agent": after, "names": names}
        log.warning("environment_variables_purged", extra=extra)


def restore_fixed(chat: Conversation, after: str) -> None:
    changed = [name for name, value in chat.fixed.items() if not _is(chat.context.get(name), value)]
    if changed:
        log.warning("fixed_names_restored", extra={"agent": after, "names": changed})
        chat.context.update({name: chat.fixed[name] for name in changed})


def _is(found: Any, value: Any) -> bool:
    try:
        return bool(found == value)
    except Exception:  # noqa: BLE001 -- a tool may put any object into a context, and any may refuse to be compared
        return False
