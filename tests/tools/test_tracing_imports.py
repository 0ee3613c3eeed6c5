"""Libraries that tracing imports."""

import subprocess
import sys


def test_without_an_endpoint_a_trigger_role_loads_nothing_that_exports() -> None:
    """redis-py loads the part for metrics by itself, and AG2 more in a worker."""
    program = (
        "import sys, triggers.role_context\n"
        "from workers.settings import Settings\n"
        "from workers.tracing.tracing import open_tracing\n"
        "open_tracing(Settings(), role='gateway').close()\n"
        "exporting = ('opentelemetry.exporter', 'opentelemetry.sdk.trace')\n"
        "loaded = [name for name in sys.modules if name.startswith(exporting)]\n"
        "sys.exit(' '.join(loaded) or 0)\n"
    )

    subprocess.run([sys.executable, "-c", program], check=True)
