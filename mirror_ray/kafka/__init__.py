"""The one place that talks to Kafka: raw connections and their security, admin, internal topics."""

import sys

if "hypothesis" not in sys.modules:
    # Where it happens to be installed kio imports all of it, for tests that we don't have: a sixth of a second.
    sys.modules["hypothesis"] = None  # type: ignore[assignment]
    try:
        import kio.static.primitive  # noqa: F401
    finally:
        del sys.modules["hypothesis"]
