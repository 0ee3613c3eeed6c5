"""The console app: the routes under /console, which the gateway serves."""

from collections.abc import Sequence

from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from ops.console.console_context import ConsoleContext, ConsoleOptions
from ops.console.error_pages import error_handlers
from ops.console.login import log_out, login_endpoint, set_actions
from ops.console.overview_page import show_overview
from ops.console.page_renderer import FOLDER, PageRenderer, SecurityHeaders
from ops.console.run_actions import confirm_run_action, execute_run_action
from ops.console.run_list_page import list_runs
from ops.console.run_page import show_run
from ops.console.runbook_page import runbook_endpoint
from ops.console.sessions import Sessions
from ops.console.trigger_actions import confirm_trigger_action, execute_trigger_action
from ops.console.trigger_list_page import list_triggers
from ops.console.trigger_page import show_trigger
from ops.console.usage_page import show_usage
from triggers.api.keyring import Keyring
from triggers.api_keys import ApiKeys
from triggers.role_context import RoleContext

CONSOLE_PATH = "/console"
_RUN_PATH, _TRIGGER_PATH = "/console/runs/{run_id}", "/console/triggers/{workflow}/{name}"
_STATIC_FILES = {"console.css": "text/css", "console.js": "text/javascript"}


def console_routes(role: RoleContext, options: ConsoleOptions | None = None) -> Sequence[BaseRoute]:
    renderer = PageRenderer()
    sessions, keyring = Sessions(role.database), Keyring(ApiKeys(role.database))
    context = ConsoleContext(role, renderer, sessions, keyring, options or ConsoleOptions())
    app = Starlette(routes=_routes(context), exception_handlers=dict(error_handlers(renderer)))
    app.router.redirect_slashes = False
    secured_app = SecurityHeaders(app)
    return [Route(CONSOLE_PATH, secured_app), Route(CONSOLE_PATH + "/{rest:path}", secured_app)]


def _routes(context: ConsoleContext) -> Sequence[BaseRoute]:
    return [
        *(Route(path, context.page_endpoint(show_overview)) for path in (CONSOLE_PATH, CONSOLE_PATH + "/")),
        Route("/console/login", login_endpoint(context), methods=["GET", "POST"]),
        Route("/console/logout", context.action_endpoint(log_out), methods=["POST"]),
        Route("/console/actions", context.action_endpoint(set_actions), methods=["POST"]),
        Route("/console/runs", context.page_endpoint(list_runs)),
        Route(_RUN_PATH, context.page_endpoint(show_run)),
        Route(_RUN_PATH + "/{action}", context.page_endpoint(confirm_run_action)),
        Route(_RUN_PATH + "/{action}", context.action_endpoint(execute_run_action), methods=["POST"]),
        Route("/console/triggers", context.page_endpoint(list_triggers)),
        Route(_TRIGGER_PATH, context.page_endpoint(show_trigger)),
        Route(_TRIGGER_PATH + "/{action}", context.page_endpoint(confirm_trigger_action)),
        Route(_TRIGGER_PATH + "/{action}", context.action_endpoint(execute_trigger_action), methods=["POST"]),
        Route("/console/usage", context.page_endpoint(show_usage)),
        Route("/console/runbook", runbook_endpoint(context.renderer)),
        *(Route(f"/console/static/{name}", _static_file(name, type_)) for name, type_ in _STATIC_FILES.items()),
    ]


def _static_file(name: str, media_type: str) -> Response:
    """Read the file once; a response is an ASGI app itself."""
    return Response((FOLDER / "static" / name).read_bytes(), media_type=media_type)
