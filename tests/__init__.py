"""The tests mirror the rooms of the package.

Locust patches the standard library when it is imported. So that no test depends on which other test came before it,
the test process is patched here, before anything else is imported, as a Locust process is.
"""

import signal

from gevent import monkey

monkey.patch_all()

# Whoever runs the tests in the background of a shell (CI does) hands down a SIGINT that is ignored, and so would every
# process started here: no Ctrl-C could end any of them.
signal.signal(signal.SIGINT, signal.default_int_handler)
