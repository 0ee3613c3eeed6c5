"""For all tests: how long a property test may take is for pytest to say, not for a machine that is busy."""

from hypothesis import HealthCheck, settings

settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")
