"""The gateway app: every address it answers, on one page."""

from starlette.applications import Starlette
from starlette.routing import Route

from triggers.api_keys import ApiKeys
from triggers.form.endpoint import form_endpoint
from triggers.form.page import accepted_page
from triggers.gateway.health import alive, metrics_page, ready
from triggers.gateway.metrics import GatewayMetrics
from triggers.gateway.problems import HANDLERS
from triggers.gateway.reception import Reception, counted
from triggers.gateway.runs import run_status
from triggers.role import TriggerGround
from triggers.webhook.endpoint import webhook_endpoint


def create_app(ground: TriggerGround) -> Starlette:
    metrics = GatewayMetrics()
    # The catalog looks at its files when asked, at most once a second: a few milliseconds, not worth a thread.
    reception = Reception(ground.settings, ground.catalog, ground.acceptance, metrics)
    webhook = counted("webhook", metrics, webhook_endpoint(reception))
    form = counted("form", metrics, form_endpoint(reception))
    app = Starlette(
        routes=[
            Route("/hooks/{app}/{workflow}/{trigger}", webhook, methods=["POST"]),
            Route("/forms/{app}/{workflow}/{trigger}", form, methods=["POST"]),
            Route("/forms/{app}/{workflow}/{trigger}/accepted", accepted_page(reception)),
            Route("/v1/runs/{id}", run_status(ApiKeys(ground.database), ground.store)),
            Route("/healthz", alive),
            Route("/readyz", ready(ground.database)),
            Route("/metrics", metrics_page(metrics.registry)),
        ],
        exception_handlers=HANDLERS,
    )
    app.router.redirect_slashes = False  # a redirected POST loses its body in half of the clients
    return app
