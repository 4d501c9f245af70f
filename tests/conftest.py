"""What all tests share."""

from hypothesis import HealthCheck, settings

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
