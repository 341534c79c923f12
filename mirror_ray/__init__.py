"""Kafka replication between clusters by Ray actors.

``mirror_ray.attach()`` gives a handle on a running system. It brings Ray with it, so it is imported on first use only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mirror_ray.attach import attach

__version__ = "0.1.0"

__all__ = ["__version__", "attach"]


def __getattr__(name: str) -> Any:
    """Import ``attach``, and Ray with it, when it is first asked for."""
    if name == "attach":
        from mirror_ray.attach import attach

        return attach
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
