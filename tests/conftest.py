"""For all tests: hypothesis sets no limit on time. A busy machine is no failure."""

from hypothesis import HealthCheck, settings

settings.register_profile("rawtok", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("rawtok")
