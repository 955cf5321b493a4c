"""These tests start many processes and wait for them."""

from __future__ import annotations

from tests.side_by_side import side_runs

__all__ = ["side_runs"]
