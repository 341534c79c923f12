"""Patterns of users: what they mean, what is refused, and that none takes long, whatever it is matched with."""

from __future__ import annotations

import copy
import re
import time
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirror_ray.model.pattern_syntax import escaped
from mirror_ray.model.patterns import Pattern, compile_patterns
from mirror_ray.model.subscription import Subscription


def compiled(*patterns: str) -> Pattern:
    """Of at least one."""
    pattern = compile_patterns(patterns)
    assert pattern is not None
    return pattern


@pytest.mark.parametrize(
    ("patterns", "matches", "others"),
    [
        ((r"\Qa.b\E.*",), ["a.bc"], ["axbc"]),
        ((r"\Qa]\E|[\Q]-\E]",), ["a]", "]", "-"], ["Q"]),
        (("(?i)abc", "x"), ["ABC", "X"], ["y"]),
        (("x", "(?i)abc"), ["aBc", "x"], ["X"]),
        (("a(?i)b|c", "(?:(?i)d)e"), ["aB", "C", "DE"], ["Ab"]),
        (("(a", "b)c"), ["ac", "bc"], ["a"]),
        (("[]a^]+", "[^]b]"), ["]a^", "c"], ["b", "bb"]),
        ((r"[\w&]+\z", r"\d\Z"), ["a&b", "7"], ["é", "٣"]),
        ((r"\s[\s]\S[\S]",), ["\v\va-", " \nb\u00e9"], ["aaaa", "\v\v\v\v"]),
        ((".*",), ["a\rb", "\ufffd"], ["a\nb", "a\n"]),
        ((r"a\.b\-.*",), ["a.b-", "a.b-c"], ["a.b-\n", "axb-", "a.b"]),
        (("^a$", "b{2,3}?", "(?s)c.", "(?<x>d)"), ["a", "bbb", "c\n", "d"], ["a\n", "b"]),
        ((r"\x41\x{42}",), ["AB"], ["ab"]),
        ((r"[^.]{0,1000}",), ["", "é"], ["."]),
    ],
)
def test_javas_syntax(patterns: tuple[str, ...], matches: list[str], others: list[str]) -> None:
    """Whole names, the patterns joined; what RE2 writes otherwise is translated."""
    assert [name for name in (*matches, *others) if compiled(*patterns).fits(name)] == matches


_BACK = "no references back"
_BY_NUMBER = re.escape(r"\x{41}")


@pytest.mark.parametrize(
    ("pattern", "says"),
    [
        (r"\p{Alpha}+", r"\[A-Za-z\]"),
        (r"[\P{L}]", "classes of that kind are Java's"),
        ("[a-z&&[^b]]", "one set"),
        ("[a[b]]", "one set"),
        ("[[:alpha:]]", "one set"),
        ("a(?!test-).*", "no look-around but .*; say .* exclusion"),
        ("((?!test-).*)", "no look-around"),
        ("(?!test-.*", "missing \\)"),
        ("(?!test-).*|a", "its first alternative alone; list the others"),
        ("(?!" + "a)(?!" * 20 + "a).*", "21 look-aheads"),
        ("a(?=b).*", "no look-around"),
        (".*(?<=a)", "no look-around"),
        (".*(?<!a)", "no look-around"),
        ("(?>a)b", "no atomic groups"),
        ("a++b", "no possessive"),
        ("a{2}+b", "no possessive"),
        ("a*+", "no possessive"),
        ("a?+", "no possessive"),
        (r"(a)\1", _BACK),
        (r"(?<x>a)\k<x>", _BACK),
        ("(?P<x>a)(?P=x)", _BACK),
        (r"\0101", _BY_NUMBER),
        (r"[\u0041]", _BY_NUMBER),
        (r"\x4", _BY_NUMBER),
        (r"\cA", _BY_NUMBER),
        (r"\v", "one character to some"),
        (r"\h", "Java's"),
        (r"\R", "Java's"),
        (r"\Ga", "no meaning for whole names"),
        (r"\C", "no meaning for whole names"),
        (r"a\b{g}", "no meaning for whole names"),
        ("(?x)a b", r"flags \(\?i\)"),
        ("(?U)a", r"flags \(\?i\)"),
        ("(?i-u:a)", r"flags \(\?i\)"),
        ("(?#note)a", r"flags \(\?i\)"),
        ("(?(1)a|b)", r"flags \(\?i\)"),
        ("(?<x>a)(?<x>b)", "two of its groups are named x"),
        ("a{,3}", r"written \\{"),
        ("a{b}", r"written \\{"),
        ("a{1,99999999999}", "at most 1000 repeats"),
        ("a{1001}", "at most 1000 repeats"),
        ("(a{100}){100}", "repeats within repeats"),
        ("*", r"write \.\*"),
        ("(a", "not a regular expression: missing"),
        ("a)", "not a regular expression"),
        ("a**", "not a regular expression"),
        ("a\\", "not a regular expression"),
        ("[z-a]", "not a regular expression"),
        ("(" * 3000, "not a regular expression: missing"),
        ("a\ud800", "not a regular expression: it is no Unicode text"),
        ("a" * 250_001, "250,001 characters"),
        ("a?" * 10_001, "10,001 groups and repeats"),
        ("[^a]{1,1000}[^b]{1,1000}", "too large: 18,002 steps"),
        ("[^a]" * 60_000, "too large"),
    ],
)
def test_what_can_not_be_used_is_named(pattern: str, says: str) -> None:
    """The pattern, as far as it can be shown, what of it, and what to write instead."""
    with pytest.raises(ValueError, match=says) as error:
        compile_patterns((pattern,))
    assert repr(pattern[:80])[:-1] in str(error.value)
    assert len(str(error.value)) < 500


def test_of_a_list_the_pattern_that_can_not_be_used_is_named() -> None:
    """Not the list."""
    with pytest.raises(ValueError, match=r"^'b\+\+' can't be used"):
        compile_patterns(("a.*", "b++", "c"))


@pytest.mark.parametrize(
    "pattern",
    [
        "(" * 4999 + "a" + ")" * 4999,
        "(|a)" * 9_990,
        "a?" * 9_990,
        "^" * 240_000,
        r"\Qa" * 50_000,
        "(?:(?:a?){30}){30}a",
    ],
    ids=["deep", "empty", "optional", "assertions", "quotes", "multiplied"],
)
def test_large_patterns_are_compiled_within_a_second(pattern: str) -> None:
    """Nothing recurses, and nothing grows faster than what was written."""
    begun = time.process_time()
    compiled(pattern).fits("a")
    assert time.process_time() - begun < 1


def test_a_list_of_thousands_of_names_can_be_used() -> None:
    """As MM2 takes it."""
    names = [f"team{number % 37}.orders.v{number}" for number in range(9_000)]
    pattern = compiled(*names)
    assert pattern.fits(names[-1])
    assert not pattern.fits("team1.orders")


#: Each takes exponential or polynomial time where matching tries one way after the other.
SLOW = ("(a+)+b", "(a|a)*b", "(a|aa)+b", "(.*a){20}b", "(a*)*b", "([a-z]+)*=", ".*.*.*.*.*b", "(?i)(a+)+b")


@pytest.mark.parametrize("pattern", SLOW)
@pytest.mark.parametrize("length", [40, 40_000])
@pytest.mark.parametrize("turn", [str, str.encode], ids=["text", "bytes"])
def test_no_pattern_takes_long(pattern: str, length: int, turn: Callable[[str], str | bytes]) -> None:
    """Exponential ones take years with forty."""
    slow = compiled(pattern)
    begun = time.process_time()
    assert not slow.fits(turn("a" * length))
    assert time.process_time() - begun < 0.05


def test_groups_and_subscriptions_do_not_take_long() -> None:
    """Where groups are looked into, and of the patterns of other people's consumers."""
    begun = time.process_time()
    assert compiled("(a+)+(b?)").groups_of("a" * 40_000) == ("a" * 40_000, "a" * 40_000, "")
    assert not Subscription(frozenset(), frozenset(SLOW)).covers("a" * 40_000)
    assert time.process_time() - begun < 0.5


def test_subscriptions_are_re2s() -> None:
    """The broker's RE2/J; a pattern that can't be read may fit anything."""
    assert Subscription(frozenset(), frozenset({r"\p{Greek}+"})).covers("αβγ")
    assert not Subscription(frozenset(), frozenset({r"\pL"})).covers("7")
    assert Subscription(frozenset(), frozenset({"(?=a)"})).covers("b")


def test_a_long_text_is_refused_where_it_would_take_seconds() -> None:
    """No name is so long; of keys and values the usual patterns take any length."""
    assert compiled("(a|b)+").fits("ab" * 5_000_000)
    assert compiled("a.*").fits(b"a" * 20_000_000)
    with pytest.raises(ValueError, match=r"text of 1,000,000 bytes is too long to be matched by '\[ab\]\*a"):
        compiled("[ab]*a[ab]{500}").fits("ab" * 500_000)


@given(st.text(st.characters(), max_size=10) | st.binary(max_size=10))
def test_any_text_can_be_matched(text: str | bytes) -> None:
    """What is no UTF-8 counts as replaced; nothing is raised."""
    assert compiled("(?s).*").fits(text)
    assert compiled(".*").fits(text) == compiled("(?:.)*").fits(text)


@given(st.text(st.characters(codec="utf-8"), max_size=10), st.text("a.\\-x", max_size=5))
def test_an_escaped_text_fits_itself_alone(text: str, other: str) -> None:
    """In the one syntax and the other."""
    for pattern in (compiled(escaped(text)), Pattern(escaped(text))):
        assert pattern.fits(text)
        assert pattern.fits(other) == (text == other)


def test_groups() -> None:
    """By number and name; one that took no part holds nothing."""
    pattern = compiled(r"(?<team>[a-z]+)-(é)?(.*)")
    assert (pattern.groups, dict(pattern.groupindex)) == (3, {"team": 1})
    assert pattern.groups_of("sales-ü") == ("sales-ü", "sales", None, "ü")
    assert pattern.groups_of("7") is None


def test_a_pattern_goes_to_other_processes() -> None:
    """By what pickle and copy go by; what RE2 made of it stays."""
    assert copy.deepcopy(compiled(r"a\s")).fits("a\v")


#: What Java, Python and RE2 have in common.
_ATOMS = r"a b A 0 - _ \. \- . \d \D \w \W \s \S \b \B ^ $ [ab] [^ab] [a-c._-] [\w.-] [^\d] [\-\.] []a] [^]a] mm __"
_COMMON = st.recursive(
    st.sampled_from(_ATOMS.split()),
    lambda parts: st.one_of(
        st.lists(parts, min_size=1, max_size=4).map("".join),
        st.tuples(parts, parts).map("|".join),
        parts.map("(?:{})".format),
        parts.map("({})".format),
        st.tuples(parts, st.sampled_from(["*", "+", "?", "*?", "+?", "??", "{2}", "{1,2}", "{0,}"])).map(
            lambda repeated: f"(?:{repeated[0]}){repeated[1]}"
        ),
    ),
    max_leaves=8,
)
_NAMES = st.text("abA0.-_", min_size=1, max_size=8) | st.sampled_from(["a.internal", "__c_offsets", "A.b.replica"])


@given(patterns=st.lists(_COMMON, min_size=1, max_size=3), names=st.lists(_NAMES, min_size=1, max_size=5))
def test_what_is_common_means_what_it_meant(patterns: list[str], names: list[str]) -> None:
    """As Python's re, which has Java's rules in these, tells it for names of topics."""
    there = re.compile("|".join(patterns), re.ASCII)
    here = compiled(*patterns)
    for name in names:
        assert here.fits(name) == (there.fullmatch(name) is not None), (patterns, name)


#: MM2's defaults, and what its users write.
_DEFAULTS = (
    [r".*[\-\.]internal", r".*\.replica", "__.*"],
    ["mm2.*\\.internal", r".*\.internal", ".*-internal"],
    ["console-consumer-.*", "connect-.*", "__.*"],
    ["follower\\.replication\\.throttled\\.replicas", "leader\\.replication\\.throttled\\.replicas"],
    ["message\\.timestamp\\.difference\\.max\\.ms", "unclean\\.leader\\.election\\.enable", "min\\.insync\\.replicas"],
    ["(?i)Payments?", "^orders-[0-9]{4}$", r"[^_].*", r"(?:eu|us)\..+"],
)
_PIECES = "__ mm2 . - internal replica orders -2024 console-consumer- connect- eu PAYMENTS _ min.insync.replicas x"


@given(st.sampled_from(_DEFAULTS), st.lists(st.sampled_from(_PIECES.split()), max_size=5).map("".join))
def test_mm2s_defaults_mean_what_they_meant(patterns: list[str], name: str) -> None:
    """For names made of what they speak of."""
    assert compiled(*patterns).fits(name) == (re.fullmatch("|".join(patterns), name, re.ASCII) is not None)
