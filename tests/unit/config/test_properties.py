"""The grammar of ``.properties`` files."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirror_ray.config.properties import parse_properties

_CHARACTERS = st.characters(exclude_categories=["Cs"])


def _escape(text: str, special: str) -> str:
    """Write a text as ``java.util.Properties.store`` does."""
    names = {"\t": r"\t", "\n": r"\n", "\r": r"\r", "\f": r"\f"}
    out = ""
    for char in text:
        if char in names:
            out += names[char]
        elif char in special:
            out += f"\\{char}"
        elif " " <= char <= "~":
            out += char
        else:
            units = char.encode("utf-16-be")
            out += "".join(f"\\u{units[n : n + 2].hex()}" for n in range(0, len(units), 2))
    return out


@given(
    st.dictionaries(st.text(_CHARACTERS, min_size=1), st.text(_CHARACTERS)),
    st.sampled_from(["=", ":", " ", " = ", "\t:\f"]),
    st.sampled_from(["\n", "\r\n", "\r"]),
)
def test_round_trip(entries: dict[str, str], separator: str, line_end: str) -> None:
    """Any key and value survive being written and read."""
    lines = [_escape(k, "\\ =:#!") + separator + _escape(v, "\\ =:") for k, v in entries.items()]
    assert parse_properties(line_end.join(lines)) == entries


@pytest.mark.parametrize(
    ("text", "entries"),
    [
        ("a=1\nb: 2\nc 3\nd\n", {"a": "1", "b": "2", "c": "3", "d": ""}),
        ("# a=1\n  ! b=2\n\n \t\nc=3", {"c": "3"}),
        ("fruits = apple, \\\n    pear, \\\n\tplum", {"fruits": "apple, pear, plum"}),
        ("a = b\\\\\nc = d", {"a": "b\\", "c": "d"}),
        ("# a comment is not continued \\\na = 1", {"a": "1"}),
        ("a = 1 \\\n# this is text", {"a": "1 # this is text"}),
        (r"a\ b\=c\:d = e=f:g", {"a b=c:d": "e=f:g"}),
        (r"a = \u00e4\q\t.", {"a": "äq\t."}),
        ("a = 1\na = 2", {"a": "2"}),
        ("a = x \nA->B.topics = y\\", {"a": "x ", "A->B.topics": "y"}),
        ("a==b", {"a": "=b"}),
        ("\\\n# still a comment\na = 1\\", {"a": "1"}),
        ("", {}),
    ],
)
def test_grammar(text: str, entries: dict[str, str]) -> None:
    """Separators, comments, continuation lines, escapes and doubled keys are read as Java reads them."""
    assert parse_properties(text) == entries


def test_bad_escape_names_the_line() -> None:
    """Java refuses such a file as well. A continued entry is numbered by where it begins."""
    for text in ("a = \\\n 1\nb = \\u00z1", "\n\na = \\\n \\u00z1\nb = 2"):
        with pytest.raises(ValueError, match=r"line 3: \\u is not followed by four"):
            parse_properties(text)
