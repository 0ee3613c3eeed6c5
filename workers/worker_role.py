"""The worker role: a Celery worker of our app, in this process.

How it ends, and what whoever keeps it running does then (always the same: start it again, unless it was told to stop):

    0   told to stop, or grown beyond its memory limit; every run it held is handed back
    1   it could not start (MongoDB away, a models file that cannot be read, no free port), or it was told to stop and
        could not hand its runs back in time: another worker resumes them when their leases run out
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
    """`settings` has both server addresses. Ends the process when the worker was told to stop."""
    # Until Celery takes over. As the first process of a container it would not even hear a signal without a handler.
    signal.signal(signal.SIGTERM, lambda *_: os._exit(HANDED_BACK))
    # A fault of either file ends the process before anything starts.
    read_models_file(find_models_path(settings.models, library=LIBRARY))
    read_operator_file(find_operator_path(settings.config), own_database=settings.database)
    app = configure(settings)
    # Imported here and not by Celery, which would put the current directory first on the path while it does.
    from workers.tasks import process

    # The warning is about pickle, which this app refuses; containers run as root.
    warnings.filterwarnings("ignore", category=SecurityWarning)
    run: Callable[[list[str]], object] = app.worker_main  # which does return, whatever its type stub says
    run(
        [
            "--quiet",  # no banner: the log has one event a line
            "worker",
            "--without-gossip",  # workers coordinate through the run store
            "--without-mingle",  # it asks others for revoked tasks, and waits a second for answers that never come
            "--without-heartbeat",  # an event every two seconds, for monitors of Celery; the lease is our sign of life
            f"--hostname=unattended-{os.getpid()}@%h",
        ]
    )
    end_process(process.exit_code)
