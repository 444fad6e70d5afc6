"""For all tests: hypothesis sets no limit on time, since a busy machine is no failure.

And Ctrl-C is what it is on a terminal: a shell that starts the tests in its background has SIGINT
ignored, and every process that they start inherits that.
"""

import signal

from hypothesis import HealthCheck, settings

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

settings.register_profile("rawtok", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("rawtok")
