"""The gateway app: every address that the gateway serves."""

from collections.abc import Sequence

from starlette.applications import Starlette
from starlette.routing import BaseRoute, Route

from triggers.api.api_app import api_routes, create_api
from triggers.form.form_endpoint import form_routes
from triggers.gateway.endpoint_response import count_requests
from triggers.gateway.gateway_health import liveness_endpoint, metrics_endpoint, readiness_endpoint
from triggers.gateway.gateway_metrics import GatewayMetrics
from triggers.gateway.http_problems import EXCEPTION_HANDLERS
from triggers.gateway.middleware import CallerTraceMiddleware, DrainMiddleware
from triggers.gateway.trigger_intake import TriggerIntake
from triggers.gateway.trigger_lookup import TriggerLookup
from triggers.role_context import RoleContext
from triggers.webhook.webhook_endpoint import webhook_endpoint


def create_app(
    context: RoleContext, extra_routes: Sequence[BaseRoute] = (), *, metrics: GatewayMetrics | None = None
) -> Starlette:
    """Builds the app. `extra_routes` are those of other rooms, such as the console."""
    metrics = metrics or GatewayMetrics()
    # The catalog checks its files at most once a second, in a few milliseconds: not worth a thread.
    lookup = TriggerLookup(context.catalog.packages, context.triggers)
    intake = TriggerIntake(context.settings, lookup, context.acceptance, metrics, context.stats)
    webhook = count_requests("webhook", metrics, webhook_endpoint(intake))
    app = Starlette(
        routes=[
            Route("/hooks/{app}/{workflow}/{trigger}", webhook, methods=["POST"]),
            *form_routes(intake, metrics),
            *api_routes(create_api(context, metrics=metrics)),
            Route("/healthz", liveness_endpoint),
            Route("/readyz", readiness_endpoint(context.database)),
            Route("/metrics", metrics_endpoint(metrics.registry)),
            *extra_routes,
        ],
        exception_handlers=EXCEPTION_HANDLERS,
    )
    app.add_middleware(DrainMiddleware)
    if context.tracing.is_on:
        app.add_middleware(CallerTraceMiddleware)
    app.router.redirect_slashes = False  # half of the clients drop the body of a redirected POST
    return app
