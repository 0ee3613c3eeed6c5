"""The gateway app: every address it answers, on one page."""

from collections.abc import Sequence

from starlette.applications import Starlette
from starlette.routing import BaseRoute, Route

from triggers.api.app import api_routes, create_api
from triggers.form.endpoint import form_routes
from triggers.gateway.callers_trace import CallersTrace
from triggers.gateway.drain import DrainTooLarge
from triggers.gateway.health import alive, metrics_page, ready
from triggers.gateway.metrics import GatewayMetrics
from triggers.gateway.problems import HANDLERS
from triggers.gateway.reception import Reception, counted
from triggers.register.lookup import Lookup
from triggers.role import TriggerGround
from triggers.webhook.endpoint import webhook_endpoint


def create_app(
    ground: TriggerGround, more_routes: Sequence[BaseRoute] = (), *, metrics: GatewayMetrics | None = None
) -> Starlette:
    """`more_routes`: of whoever serves pages beside it, such as the console."""
    metrics = metrics or GatewayMetrics()
    # The catalog looks at its files when asked, at most once a second: a few milliseconds, not worth a thread.
    lookup = Lookup(ground.catalog.packages, ground.triggers)
    reception = Reception(ground.settings, lookup, ground.acceptance, metrics, ground.tally)
    webhook = counted("webhook", metrics, webhook_endpoint(reception))
    app = Starlette(
        routes=[
            Route("/hooks/{app}/{workflow}/{trigger}", webhook, methods=["POST"]),
            *form_routes(reception, metrics),
            *api_routes(create_api(ground, metrics=metrics)),
            Route("/healthz", alive),
            Route("/readyz", ready(ground.database)),
            Route("/metrics", metrics_page(metrics.registry)),
            *more_routes,
        ],
        exception_handlers=HANDLERS,
    )
    app.add_middleware(DrainTooLarge)
    if ground.tracing.is_on:
        app.add_middleware(CallersTrace)
    app.router.redirect_slashes = False  # a redirected POST loses its body in half of the clients
    return app
