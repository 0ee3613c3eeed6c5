"""The holder: under which name this process reserves, and signs the rows of its calls."""

from uuid import uuid4


class ReserverIdentity:
    """A name is never used again: one that was away for longer than its reservations hold comes back as another."""

    def __init__(self) -> None:
        self._id = _new_id()

    @property
    def id(self) -> str:
        return self._id

    def renew(self) -> None:
        self._id = _new_id()


def _new_id() -> str:
    return f"h{uuid4().hex[:20]}"
