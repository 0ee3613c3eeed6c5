"""The worker role: a Celery worker of our app, in this process."""

import logging
import os
import sys
import warnings
from collections.abc import Callable

from celery.exceptions import SecurityWarning

from workers.celery import configure
from workers.settings import Settings
from workflows.models_file import models_path, read_models_file
from workflows.package.catalog import LIBRARY


def serve(settings: Settings) -> None:
    """`settings` has both server addresses. Ends the process when the worker was told to stop."""
    read_models_file(models_path(settings.models, library=LIBRARY))  # its faults are said before anything starts
    app = configure(settings)
    # Imported here and not by Celery, which would put the current directory first on the path while it does.
    from workers.tasks import process

    # The warning is about pickle, which this app refuses; containers run as root.
    warnings.filterwarnings("ignore", category=SecurityWarning)
    run: Callable[[list[str]], object] = app.worker_main  # which does return, whatever its type stub says
    run(
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
    # Not by returning: the interpreter would first wait for threads, and a tool that hangs never gives its back.
    logging.shutdown()
    sys.stdout.flush()
    os._exit(process.exit_code)
