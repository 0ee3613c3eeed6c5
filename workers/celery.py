"""The Celery app: `celery -A workers worker` finds it here. It imports no task.

Each setting has its reason. The run document is the truth and a message only a wake-up, so the reliability features of
Celery (late acks, results, retries) are switched off rather than tuned.
"""

import importlib
from types import ModuleType
from typing import Any, cast

from celery import Celery
from celery.loaders.app import AppLoader
from typing_extensions import override

from workers.broker.broker_url import parse_broker_url
from workers.broker.options import broker_config
from workers.embedded_services import with_services
from workers.settings import Settings, SettingsError, load_settings
from workers.worker_timings import WorkerTimings


def celery_config(settings: Settings) -> dict[str, Any]:
    """Builds the configuration. Raises SettingsError for an unusable broker URL."""
    return {
        **broker_config(parse_broker_url(settings.redis_url or "")),
        "task_default_queue": settings.queue,
        "task_ignore_result": True,  # no result backend: results are in MongoDB
        "task_serializer": "json",
        "result_serializer": "json",
        "accept_content": ["json"],  # no pickle anywhere
        # Acknowledged on receipt: the reconciler repeats a message that is lost with its worker. Late acks on Redis run
        # every task again that takes longer than the visibility timeout (docs/decisions/0011).
        "task_acks_late": False,
        "task_publish_retry": False,  # the reconciler is the retry
        # Threads wait on one event loop; gevent loses acknowledgements on Redis and is refused.
        "worker_pool": "workers.process.thread_pool:WakeupThreadPool",
        "worker_concurrency": settings.concurrency,
        # It fetches one message ahead on RabbitMQ, and none on Redis (worker_disable_prefetch). So
        # worker_prefetch_multiplier, which fetches some for every thread, has no effect.
        "worker_consumer": "workers.broker.consumer:WakeupConsumer",
        # Cancels only tasks with late acks, of which there are none; unset, Celery logs a warning at each reconnect.
        "worker_cancel_long_running_tasks_on_connection_loss": True,
        "worker_send_task_events": False,  # they cost a third of the throughput, as measured
        "worker_enable_remote_control": False,  # cancel and inspect go through the run store
    }


class SettingsLoader(AppLoader):
    """Reads our settings when Celery first needs its configuration, not at import."""

    configured_settings: Settings | None = None
    timings = WorkerTimings()  # of a worker that Celery starts
    was_read = False

    def settings(self) -> Settings:
        return self.configured_settings or with_services(load_settings())

    @override
    def read_configuration(self, env: str = "") -> dict[str, Any]:
        self.was_read = True
        try:
            return celery_config(self.settings())
        except SettingsError as error:  # Celery would show a traceback
            raise SystemExit(f"unattended: {error}") from None

    @override
    def import_from_cwd(self, module: str, imp: Any = None, package: str | None = None) -> ModuleType:
        # Celery would put the current directory first on the path, which may contain another `workflows`.
        return importlib.import_module(module, package=package)


app = Celery("unattended", loader=SettingsLoader, include=["workers.tasks"], set_as_current=False)


def settings_loader() -> SettingsLoader:
    return cast("SettingsLoader", app.loader)


def configure(settings: Settings) -> Celery:
    """Gives the app the settings that a role already has, instead of reading them again.

    Raises SettingsError for an unusable broker URL before anything is started.
    """
    parse_broker_url(settings.redis_url or "")
    settings_loader().configured_settings = settings
    if settings_loader().was_read:  # with other settings, as in tests, which use one process for several
        app.conf.update(celery_config(settings))
    return app
