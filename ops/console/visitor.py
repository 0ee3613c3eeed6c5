"""A visitor: a session and its API key, which decide what is visible and allowed."""

from dataclasses import dataclass
from datetime import UTC, datetime

from ops.console.sessions import Session
from triggers.api.caller_access import Caller
from triggers.api_keys import HOW_TO_APPROVE
from triggers.gateway.http_problems import ProblemError


@dataclass(frozen=True, slots=True)
class Visitor:
    session: Session
    caller: Caller

    @property
    def scope(self) -> str | None:
        """Return the one app that this visitor sees; None for all. Every query uses it."""
        return self.caller.scope

    @property
    def name(self) -> str:
        """Return the name for records of changes."""
        return f"{self.caller.key.name} (console)"

    @property
    def may_write(self) -> bool:
        return self.caller.key.access == "write"

    @property
    def may_approve(self) -> bool:
        return self.caller.may_approve

    @property
    def may_act(self) -> bool:
        return self.may_write and self.session.can_act(datetime.now(UTC))

    def check_may_approve(self) -> None:
        self.check_may_write()
        if not self.may_approve:
            raise ProblemError(403, f"this key may not approve; {HOW_TO_APPROVE}")

    def check_may_write(self) -> None:
        if not self.may_write:
            raise ProblemError(403, "this key is read-only; log in with a key created without --read-only")
