"""Property tests on a loaded or fresh machine: Hypothesis builds its table of characters during the first example."""

from hypothesis import HealthCheck, settings

without_deadline = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
