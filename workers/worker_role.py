"""The worker role: a Celery worker of our app, in this process.

Its exit codes are below. A supervisor always does the same: it restarts the worker, unless it stopped it on purpose.

    0   stopped, or above its memory limit; all its runs are handed back
    1   it could not start (MongoDB away, an unreadable models file, no free port), or it was stopped and could not hand
        its runs back in time: another worker resumes them when their leases expire
    70  its event loop stood still, or its consumer took nothing for minutes though the broker answered

SIGTERM, SIGINT and SIGHUP let turns end for UNATTENDED_GRACE_S; a second SIGINT, or SIGQUIT, cuts them off at once.
"""

import os
import signal
import warnings
from collections.abc import Callable

from celery.exceptions import SecurityWarning

from workers.celery import configure
from workers.process.shutdown import HANDED_BACK, end_process
from workers.settings import Settings
from workflows.models_file import find_models_path, read_models_file
from workflows.operator_file import find_operator_path, read_operator_file
from workflows.package.catalog import LIBRARY


def serve(settings: Settings) -> None:
    """Runs the worker. `settings` must have both server URLs.

    The process ends when the worker was stopped.
    """
    # Until Celery takes over. The first process of a container ignores signals without a handler.
    signal.signal(signal.SIGTERM, lambda *_: os._exit(HANDED_BACK))
    # An error in either file ends the process before anything starts.
    read_models_file(find_models_path(settings.models, library=LIBRARY))
    read_operator_file(find_operator_path(settings.config), own_database=settings.database)
    app = configure(settings)
    # Imported here and not by Celery, which puts the current directory first on the path while it imports.
    from workers.tasks import process

    # The warning is about pickle, which this app refuses; containers run as root.
    warnings.filterwarnings("ignore", category=SecurityWarning)
    run: Callable[[list[str]], object] = app.worker_main  # it does return, contrary to its type stub
    run(
        [
            "--quiet",  # no banner: the log has one event per line
            "worker",
            "--without-gossip",  # workers coordinate through the run store
            "--without-mingle",  # it asks other workers for revoked tasks, and waits a second in vain
            "--without-heartbeat",  # an event every two seconds for monitors of Celery; our sign of life is the lease
            f"--hostname=unattended-{os.getpid()}@%h",
        ]
    )
    end_process(process.exit_code)
