"""The names of operations in the filters, triggers and draws of faults."""

from __future__ import annotations

from typing import Literal

RequestOp = Literal["acquire", "renew", "release", "read", "write", "delete"]
OPS: tuple[RequestOp, ...] = ("acquire", "renew", "release", "read", "write")
"""What a swarm's filters and triggers choose from."""
WRITE_OPS: tuple[RequestOp, ...] = ("acquire", "renew", "release")
CHANGING_OPS: frozenset[str] = frozenset({*WRITE_OPS, "write", "delete"})
"""Requests that change something where they are applied."""
