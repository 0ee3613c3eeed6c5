"""Access: who calls, what that key may see, what it may change, and whether it may approve."""

from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import Depends, Request, Security
from fastapi.security import HTTPBearer

from triggers.api.api_problems import invalid_fields
from triggers.api_keys import HOW_TO_APPROVE, ApiKey
from triggers.gateway.http_problems import ProblemError

CALLER_SCOPE_KEY = "unattended.caller"  # where the door leaves it in a request's scope

_BEARER = HTTPBearer(
    scheme_name="api_key",
    description="An API key: `unattended keys create NAME` makes one. `Authorization: Bearer ua_…`",
    auto_error=False,
)


@dataclass(frozen=True, slots=True)
class Caller:
    key: ApiKey

    @property
    def scope(self) -> str | None:
        """The one app that this caller sees; None for all. Goes into every question to the store."""
        return self.key.app_id

    @property
    def name(self) -> str:
        """For records of who did something."""
        return f"{self.key.name} (api)"

    @property
    def may_approve(self) -> bool:
        return self.key.may_approve

    @property
    def rights(self) -> dict[str, Any]:
        """As the functions that make and fire triggers take them."""
        return {"viewer": self.scope, "may_approve": self.may_approve}

    def resolve_optional_app(self, app_id: str | None) -> str | None:
        """The app to look at, where it may be left out; None for all apps."""
        if self.key.app_id is None or app_id in (None, self.key.app_id):
            return self.key.app_id or app_id
        raise ProblemError(403, f"this key is for the app {self.key.app_id} alone; leave app_id out")

    def resolve_app(self, app_id: str | None) -> str:
        """The app to act for. A key of all apps has to name it, which no schema can say."""
        found = self.resolve_optional_app(app_id)
        if found is None:
            raise invalid_fields({"app_id": "is needed; this key is for all apps, so say which one is meant"})
        return found


async def _require_caller(request: Request, _bearer: Annotated[object, Security(_BEARER)]) -> Caller:
    found = request.scope.get(CALLER_SCOPE_KEY)
    if not isinstance(found, Caller):  # reached past the door: nobody is let in
        raise unauthorized_problem()
    return found


async def _require_writer(caller: Annotated[Caller, Depends(_require_caller)]) -> Caller:
    if caller.key.access != "write":
        raise ProblemError(403, "this key may only read; use one that was made without --read-only")
    return caller


async def _require_approver(caller: Annotated[Caller, Depends(_require_writer)]) -> Caller:
    if not caller.may_approve:
        raise ProblemError(403, f"this key may not approve; {HOW_TO_APPROVE}")
    return caller


Reader = Annotated[Caller, Depends(_require_caller)]
Writer = Annotated[Caller, Depends(_require_writer)]
Approver = Annotated[Caller, Depends(_require_approver)]


def unauthorized_problem() -> ProblemError:
    """One text for no key, an unknown, a revoked and an expired one."""
    return ProblemError(401, "send an API key: Authorization: Bearer ua_…", headers={"www-authenticate": "Bearer"})
