"""For all tests: how much a property test tries, and that how long it may take is for pytest to say, not for a machine
that is busy. Settings of the shell that starts them are not theirs."""

import os

from hypothesis import HealthCheck, settings

from tests.chaos.lengths import by_length

EXAMPLES = by_length(short=50, long=500)  # those that name a number of their own keep it

settings.register_profile("patient", max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")

for name in [name for name in os.environ if name.startswith("UNATTENDED_") and not name.startswith("UNATTENDED_TEST_")]:
    del os.environ[name]
