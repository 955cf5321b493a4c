"""QuietGC: keeps Python's cyclic garbage collector from pausing a running test.

Theory of operation. A full collection walks every container of the process: 50 to 140 ms with Locust and 1,000 streams,
longer than several token gaps. What exists when a test starts (modules, classes, users) will not become garbage, so it
is collected once and then frozen, out of the collector's sight. Our requests leave no cycles behind, however they end
(tests/wire/test_transport_exits.py): all they made goes by reference counting. The collector is only there for what a
user's own code leaves, and comes by when that has grown to some 20 MB.
"""

from __future__ import annotations

import gc
from typing import Any, Final

THRESHOLDS: Final = (200_000, 10, 10)
"""Net new containers before the youngest generation is collected, and how many collections before each older one."""


class QuietGC:
    """One per process. `start` and `stop` may be called in any order and number."""

    def __init__(self) -> None:
        self._before: tuple[int, int, int] | None = None

    def install(self, events: Any) -> None:
        """Follow the tests of one Environment."""
        events.test_start.add_listener(lambda **_: self.start())
        events.spawning_complete.add_listener(lambda **_: self.settle())
        events.test_stop.add_listener(lambda **_: self.stop())

    def start(self) -> None:
        """A test starts: collect, freeze what is there, collect rarely from now on."""
        gc.collect()
        gc.freeze()
        if self._before is None:
            self._before = gc.get_threshold()
            gc.set_threshold(*THRESHOLDS)

    def settle(self) -> None:
        """All users are there, and stay: freeze them too. No collection, which would pause the streams that run."""
        if self._before is not None:
            gc.freeze()

    def stop(self) -> None:
        """The test is over: as before."""
        if self._before is not None:
            gc.set_threshold(*self._before)
            self._before = None
            gc.unfreeze()
