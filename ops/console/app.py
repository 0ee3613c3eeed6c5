"""The console app: every page under /console, for the gateway to serve beside its own addresses."""

from collections.abc import Sequence

from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from ops.console.desk import Desk
from ops.console.entering import allow_actions, entrance, leave
from ops.console.errors import error_pages
from ops.console.overview import overview
from ops.console.pages import HERE, Pages, WithHeaders
from ops.console.run import show_run
from ops.console.run_actions import carry_out_on_run, confirm_on_run
from ops.console.runbook import runbook
from ops.console.runs import list_runs
from ops.console.sessions import Sessions
from ops.console.trigger import show_trigger
from ops.console.trigger_actions import carry_out_on_trigger, confirm_on_trigger
from ops.console.triggers import list_triggers
from ops.console.usage import show_usage
from triggers.api.keyring import Keyring
from triggers.api_keys import ApiKeys
from triggers.role import TriggerGround

PREFIX = "/console"
_RUN, _TRIGGER = "/console/runs/{run_id}", "/console/triggers/{workflow}/{name}"
_STATIC = {"console.css": "text/css", "console.js": "text/javascript"}


def console_routes(ground: TriggerGround) -> Sequence[BaseRoute]:
    pages = Pages()
    desk = Desk(ground, pages, Sessions(ground.database), Keyring(ApiKeys(ground.database)))
    app = Starlette(routes=_routes(desk), exception_handlers=dict(error_pages(pages)))
    app.router.redirect_slashes = False
    guarded = WithHeaders(app)
    return [Route(PREFIX, guarded), Route(PREFIX + "/{rest:path}", guarded)]


def _routes(desk: Desk) -> Sequence[BaseRoute]:
    return [
        *(Route(path, desk.page(overview)) for path in (PREFIX, PREFIX + "/")),
        Route("/console/login", entrance(desk), methods=["GET", "POST"]),
        Route("/console/logout", desk.order(leave), methods=["POST"]),
        Route("/console/actions", desk.order(allow_actions), methods=["POST"]),
        Route("/console/runs", desk.page(list_runs)),
        Route(_RUN, desk.page(show_run)),
        Route(_RUN + "/{action}", desk.page(confirm_on_run)),
        Route(_RUN + "/{action}", desk.order(carry_out_on_run), methods=["POST"]),
        Route("/console/triggers", desk.page(list_triggers)),
        Route(_TRIGGER, desk.page(show_trigger)),
        Route(_TRIGGER + "/{action}", desk.page(confirm_on_trigger)),
        Route(_TRIGGER + "/{action}", desk.order(carry_out_on_trigger), methods=["POST"]),
        Route("/console/usage", desk.page(show_usage)),
        Route("/console/runbook", runbook(desk.pages)),
        *(Route(f"/console/static/{name}", _static(name, type_)) for name, type_ in _STATIC.items()),
    ]


def _static(name: str, media_type: str) -> Response:
    """As an answer that is the same for everybody; it is an ASGI app itself."""
    return Response((HERE / "static" / name).read_bytes(), media_type=media_type)
