"""For all tests: how much a property test tries, and that how long it may take is for pytest to say, not for a machine
that is busy."""

from hypothesis import HealthCheck, settings

from tests.chaos.lengths import length

EXAMPLES = length(short=50, long=500)  # those that name a number of their own keep it

settings.register_profile("patient", max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")
