"""Look-ahead at the beginning of a pattern means what it means in Java and in Python, and takes linear time."""

from __future__ import annotations

import pickle
import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirror_ray.model.patterns import Pattern, compile_patterns
from mirror_ray.model.topic_names import Rename

_NAMES = st.text("abt-.1", max_size=8)
_PART = st.sampled_from(["a", "b", "t-", r"\.", ".*", "[ab]+", "(?:a|b)", "a$", "[)|]", r"\(", r"\Qa.b\E", "1?"])
_INSIDE = st.lists(_PART, min_size=1, max_size=3).map("".join)
_GUARD = st.builds(
    "({}{})".format, st.sampled_from(["?!", "?="]), st.one_of(_INSIDE, st.builds("{}|{}".format, _INSIDE, _INSIDE))
)
_GUARDED = st.builds(
    "{}{}{}".format, st.sampled_from(["", "^"]), st.lists(_GUARD, min_size=1, max_size=2).map("".join), _INSIDE
)


def _compiled(*patterns: str) -> Pattern:
    found = compile_patterns(patterns)
    assert found is not None
    return found


def _python(pattern: str) -> str:
    return re.sub(r"\\Q(.*?)\\E", lambda found: re.escape(found[1]), pattern)


@given(st.lists(st.one_of(_GUARDED, _INSIDE), min_size=1, max_size=3), st.lists(_NAMES, min_size=1, max_size=10))
def test_it_means_what_it_means_in_one_expression(patterns: list[str], names: list[str]) -> None:
    """However a list mixes such patterns with others; so does what has gone to another process."""
    joined = re.compile("|".join(f"(?:{_python(pattern)})" for pattern in patterns), re.ASCII)
    compiled = _compiled(*patterns)
    for pattern in (compiled, pickle.loads(pickle.dumps(compiled))):  # noqa: S301 - pickled by the test itself
        assert [pattern.fits(name) for name in names] == [joined.fullmatch(name) is not None for name in names]


def test_what_files_of_mm2_have() -> None:
    """All but some names, in a list with others."""
    pattern = _compiled("(?!retention).*", r"^(?!.*\.internal$)(?!__)orders.*", "retention\\.ms")
    names = ["retention.ms", "retention.bytes", "cleanup.policy", "orders", "orders.internal"]
    assert [name for name in names if pattern.fits(name)] == [
        "retention.ms",
        "cleanup.policy",
        "orders",
        "orders.internal",
    ]
    assert not _compiled(r"(?!.*\.internal$).*").fits("orders.internal")


def test_a_rename_may_have_it() -> None:
    """Groups are those of the rest."""
    rename = Rename(match="(?!test-)(.*)-v1", to="$1")
    assert (rename.apply("orders-v1"), rename.apply("test-v1-v1")) == ("orders", None)


@pytest.mark.parametrize("pattern", ["(?!(a+)+b).*", "(?=(a+)+b)(a+)+b"])
def test_it_takes_linear_time(pattern: str) -> None:
    """What would go back and forth for ever elsewhere."""
    compiled = _compiled(pattern)
    began_s = time.monotonic()
    for count in (40, 4_000, 30_000):
        compiled.fits("a" * count)
    assert time.monotonic() - began_s < 1


@pytest.mark.parametrize(
    ("patterns", "says"),
    [
        (("(?i)a", "(?!b).*"), r"\(\?i\) holds to the end of the list"),
        (("(?!b).*",) * 101, "101 patterns begin with look-ahead"),
        (("(?!(?=a)b).*",), "no look-around"),
    ],
)
def test_lists_that_can_not_be_taken_apart(patterns: tuple[str, ...], says: str) -> None:
    """They would mean something else, or take long."""
    with pytest.raises(ValueError, match=says):
        compile_patterns(patterns)
