"""The worker role: a Celery worker of our app, in this process."""

import os
import warnings

from celery.exceptions import SecurityWarning

from workers.celery import configure
from workers.settings import Settings
from workflows.models_file import models_path, read_models_file
from workflows.package.catalog import LIBRARY


def serve(settings: Settings) -> None:
    """`settings` has both server addresses. Returns when the worker was told to stop."""
    read_models_file(
        models_path(settings.models, library=LIBRARY)
    )  # what is wrong with it is said before anything starts
    app = configure(settings)
    # Imported here and not by Celery, which would put the current directory first on the path while it does.
    import workers.tasks  # noqa: F401 -- registers the task and the signal handlers

    # The warning is about pickle, which this app refuses; containers run as root.
    warnings.filterwarnings("ignore", category=SecurityWarning)
    app.worker_main(
        [
            "--quiet",
            "worker",
            "--loglevel=WARNING",
            "--without-gossip",  # workers coordinate through the run store
            "--without-mingle",
            "--without-heartbeat",
            f"--hostname=unattended-{os.getpid()}@%h",
        ]
    )
