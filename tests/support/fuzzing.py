"""How far generators of hostile input go: a little in every test run, much further by ``make fuzz-wire``."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

#: Where to change bytes, as a share of their number; how; and by what.
Edit = tuple[float, str, bytes]
_ODD = (b"\0", b"\xff", b"\x7f\xff\xff\xff", b"\x80\0\0\0", b"\xff\xff\xff\xff", b"\xff\xff\xff\xff\x0f", b"\0" * 8)
EDITS = st.lists(
    st.tuples(
        st.floats(0, 1),
        st.sampled_from(("replace", "insert", "delete", "cut")),
        st.sampled_from(_ODD) | st.binary(min_size=1, max_size=8),
    ),
    min_size=1,
    max_size=4,
)


def fuzzing(examples: int) -> Callable[[Any], Any]:
    """So many examples, times ``FUZZ_TIMES`` of the environment."""
    times = int(os.environ.get("FUZZ_TIMES", "1"))
    return settings(
        max_examples=examples * times,
        deadline=None if times > 1 else 5000,
        suppress_health_check=list(HealthCheck),
        derandomize=times == 1,
    )


def edited(data: bytes, edits: list[Edit]) -> bytes:
    """The bytes with all edits made."""
    for share, kind, by in edits:
        at = round(share * len(data))
        if kind == "replace":
            data = data[:at] + by + data[at + len(by) :]
        elif kind == "insert":
            data = data[:at] + by + data[at:]
        elif kind == "delete":
            data = data[:at] + data[at + len(by) :]
        else:
            data = data[:at]
    return data
