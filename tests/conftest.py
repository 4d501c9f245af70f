"""What all tests share."""

import signal

from hypothesis import HealthCheck, settings

# Ctrl-C is heard, as on a terminal: what a shell starts in the background ignores it,
# and so would all processes that tests start.
signal.signal(signal.SIGINT, signal.default_int_handler)

# The same examples on every machine and every day; CI cannot be unlucky.
settings.register_profile(
    "latecomer",
    deadline=None,
    derandomize=True,
    max_examples=20,
    suppress_health_check=[HealthCheck.too_slow],
)
# What CI never saw: pytest --hypothesis-profile=explore
settings.register_profile("explore", deadline=None, max_examples=100, database=None)
settings.load_profile("latecomer")
