"""Access: the caller of a request, and what its key may see, change and approve."""

from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import Depends, Request, Security
from fastapi.security import HTTPBearer

from triggers.api.api_problems import invalid_fields
from triggers.api_keys import HOW_TO_APPROVE, ApiKey
from triggers.gateway.http_problems import ProblemError

CALLER_SCOPE_KEY = "unattended.caller"  # the key in a request's scope, set by ApiKeyMiddleware

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
        """The only app that this caller sees; None for all.

        Each query of the store uses it.
        """
        return self.key.app_id

    @property
    def name(self) -> str:
        """The name in records of changes."""
        return f"{self.key.name} (api)"

    @property
    def may_approve(self) -> bool:
        return self.key.may_approve

    @property
    def rights(self) -> dict[str, Any]:
        """The rights as keyword arguments of the functions that create and fire triggers."""
        return {"viewer": self.scope, "may_approve": self.may_approve}

    def resolve_optional_app(self, app_id: str | None) -> str | None:
        """Returns the app to read, where it may be left out; None for all apps."""
        if self.key.app_id is None or app_id in (None, self.key.app_id):
            return self.key.app_id or app_id
        raise ProblemError(403, f"this key is for the app {self.key.app_id} alone; leave app_id out")

    def resolve_app(self, app_id: str | None) -> str:
        """Returns the app to act for.

        A key for all apps must name it, which no schema can express.
        """
        found = self.resolve_optional_app(app_id)
        if found is None:
            raise invalid_fields({"app_id": "is needed; this key is for all apps, so name one"})
        return found


async def _require_caller(request: Request, _bearer: Annotated[object, Security(_BEARER)]) -> Caller:
    found = request.scope.get(CALLER_SCOPE_KEY)
    if not isinstance(found, Caller):  # the middleware did not run
        raise unauthorized_problem()
    return found


async def _require_writer(caller: Annotated[Caller, Depends(_require_caller)]) -> Caller:
    if caller.key.access != "write":
        raise ProblemError(403, "this key may only read; use one created without --read-only")
    return caller


async def _require_approver(caller: Annotated[Caller, Depends(_require_writer)]) -> Caller:
    if not caller.may_approve:
        raise ProblemError(403, f"this key may not approve; {HOW_TO_APPROVE}")
    return caller


Reader = Annotated[Caller, Depends(_require_caller)]
Writer = Annotated[Caller, Depends(_require_writer)]
Approver = Annotated[Caller, Depends(_require_approver)]


def unauthorized_problem() -> ProblemError:
    """Uses one text for a missing, unknown, revoked or expired key."""
    return ProblemError(401, "send an API key: Authorization: Bearer ua_…", headers={"www-authenticate": "Bearer"})
