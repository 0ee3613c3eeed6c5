"""The API app: all routes under /v1, and the pages that describe them."""

from collections.abc import Sequence

from fastapi import FastAPI
from starlette.routing import BaseRoute, Route

from triggers.api.api_key_middleware import ApiKeyMiddleware
from triggers.api.api_problems import exception_handlers
from triggers.api.budget_routes import BUDGET_HANDLERS, budget_routes
from triggers.api.keyring import UNKNOWN_KEYS_RATE, Keyring
from triggers.api.openapi import COMMON_PROBLEMS, ApiDescription
from triggers.api.reference import reference_page
from triggers.api.run_routes import run_routes
from triggers.api.trigger_paths import TRIGGER_HANDLERS
from triggers.api.trigger_routes import trigger_routes
from triggers.api.usage_routes import usage_routes
from triggers.api_keys import ApiKeys
from triggers.gateway.gateway_metrics import GatewayMetrics
from triggers.role_context import RoleContext
from triggers.token_bucket import TokenRate

API_PREFIX = "/v1"


def create_api(
    context: RoleContext, *, metrics: GatewayMetrics, unknown_keys: TokenRate = UNKNOWN_KEYS_RATE
) -> FastAPI:
    routers = (run_routes(context), trigger_routes(context), usage_routes(context), budget_routes(context))
    api = FastAPI(
        title="Unattended",
        openapi_url=None,  # served by our own routes: FastAPI's pages load from other hosts
        redirect_slashes=False,
        # Off: with a process-wide provider, its spans would contain the refused values of bodies.
        telemetry={"tracing": False, "metrics": False, "logs": False},
        exception_handlers={**exception_handlers(routers, prefix=API_PREFIX), **TRIGGER_HANDLERS, **BUDGET_HANDLERS},
        responses=COMMON_PROBLEMS,
    )
    for router in routers:
        api.include_router(router, prefix=API_PREFIX)
    api.add_middleware(
        ApiKeyMiddleware,
        keyring=Keyring(ApiKeys(context.database), unknown_keys=unknown_keys),
        metrics=metrics,
        body_limit_bytes=context.settings.body_limit_bytes,
    )
    return api


def api_routes(api: FastAPI) -> Sequence[BaseRoute]:
    """Returns the gateway's routes: /v1 requires a key, the description does not."""
    description = ApiDescription(api)
    return [
        Route(API_PREFIX + "/{rest:path}", api),
        Route("/openapi.json", description.serve_json),
        Route("/docs", reference_page(description)),
    ]
