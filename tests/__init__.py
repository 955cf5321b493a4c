"""The tests mirror the rooms of the package.

Locust patches the standard library when it is imported. So that no test depends on which other test came before it,
the test process is patched here, before anything else is imported, as a Locust process is.
"""

from gevent import monkey

monkey.patch_all()
