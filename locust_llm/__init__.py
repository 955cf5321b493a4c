"""locust_llm: load-test LLM endpoints with Locust.

Importing this package starts nothing: the public names load on first use, so that `import locust_llm` neither
imports gevent nor patches anything, and works before or after `import locust`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0.dev0"

if TYPE_CHECKING:
    from locust_llm.measure.record import RequestRecord as RequestRecord
    from locust_llm.plugin.conversation import Conversation as Conversation
    from locust_llm.plugin.open_loop import OpenLoopUser as OpenLoopUser
    from locust_llm.plugin.user import LLMUser as LLMUser

_HOMES = {
    "Conversation": "locust_llm.plugin.conversation",
    "LLMUser": "locust_llm.plugin.user",
    "OpenLoopUser": "locust_llm.plugin.open_loop",
    "RequestRecord": "locust_llm.measure.record",
}

__all__ = ["Conversation", "LLMUser", "OpenLoopUser", "RequestRecord", "__version__"]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'locust_llm' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(home), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
