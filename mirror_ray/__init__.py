"""Kafka replication between clusters by Ray actors.

``mirror_ray.attach()`` gives a handle on a running system; ``mirror_ray.MirrorClient`` asks any cluster what the
internal topics on it say.
"""

import sys
from typing import TYPE_CHECKING, Any

try:
    from mirror_ray.runtime import attach
except KeyboardInterrupt:
    if sys.argv[0] == "-m" or sys.argv[0].endswith("/mirror-ray"):
        # The command line is being started, and has not begun to say so itself.
        sys.exit(130)
    raise

if TYPE_CHECKING:
    from mirror_ray.client import MirrorClient

__version__ = "0.1.0"

__all__ = ["MirrorClient", "__version__", "attach"]


def __getattr__(name: str) -> Any:
    # Imported when it is first used: whoever only attaches to a system needs no Kafka client.
    if name == "MirrorClient":
        from mirror_ray.client import MirrorClient

        return MirrorClient
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
