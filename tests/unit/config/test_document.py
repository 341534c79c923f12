"""YAML read within bounds."""

from __future__ import annotations

import pytest

from mirror_ray.config.document import read_document
from mirror_ray.model.errors import ConfigError


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", None),
        ("~", None),
        ("[yes, Off, TRUE, tRUE]", [True, False, True, "tRUE"]),
        ("[1, -0, 010, 1_000, 0x10]", [1, 0, 10, "1_000", "0x10"]),
        ("[.5, 1e3, -1., 1.5E-1, 1.2.3]", [0.5, 1000.0, -1.0, 0.15, "1.2.3"]),
        ("[2020-99-99, 2020-01-01, 1:30, '5', !!str 5]", ["2020-99-99", "2020-01-01", "1:30", "5", "5"]),
        ("{1: a, ~: b, no: c, 2020-01-01: d}", {"1": "a", "~": "b", "no": "c", "2020-01-01": "d"}),
        ("a: &a {x: 1, y: 2}\nb: {<<: *a, y: 3}", {"a": {"x": 1, "y": 2}, "b": {"x": 1, "y": 3}}),
        ("[&a {x: 1}, &b {x: 2, y: 2}, {<<: [*a, *b]}]", [{"x": 1}, {"x": 2, "y": 2}, {"x": 1, "y": 2}]),
        ("[&a [x], *a]", [["x"], ["x"]]),
        ("- |\n  a\n  b\n- >\n  c\n  d\n", ["a\nb\n", "c d\n"]),
    ],
)
def test_values(text: str, value: object) -> None:
    """As in YAML 1.2, with 1.1's yes and no and its merge key; keys are text."""
    assert read_document(text) == value


_LAUGHS = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{after}: &{after} [{','.join([f'*{before}'] * 9)}]\n"
    for before, after in zip("abcdefghi", "bcdefghij", strict=True)
)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a: 1\n---\nb: 2", "the document (line 2): a second document begins"),
        ("x: !!int foo", "x (line 1): a value that begins with ! is a tag"),
        ("x: !!float foo", "x (line 1): a value that begins with ! is a tag"),
        ("x: !!python/object/apply:os.system ['id']", "x (line 1): tags are not offered"),
        ("y: 1\n? [a, b]\n: 1", "the document (line 2): a key is not a plain text"),
        ("? {a: b}\n: 1", "the document (line 1): a key is not a plain text"),
        ("x: &a [*a]", "x[0] (line 1): an alias (*) names what it stands in itself"),
        ("defaults: &a\n  topics: *a", "defaults.topics (line 2): an alias (*) names what it stands in itself"),
        ("x: " + "[" * 3000 + "]" * 3000, "x[0][0] (line 1): more than 50 levels"),
        ("x: " + "{a: " * 10_000 + "1" + "}" * 10_000, "x.a.a (line 1): more than 50 levels"),
        (_LAUGHS, "f[0] (line 6): more than 100,000 values"),
        (f"x: &x {'y' * 100_000}\ny: [{', '.join(['*x'] * 50)}]", "y[40] (line 2): more than 4,194,304 characters"),
        ("x: " + "9" * 5000, "x (line 1): a number of more than 18 digits"),
        ("x: .nan", "x (line 1): not a finite number"),
        ("x: -.INF", "x (line 1): not a finite number"),
        ("x: 1e400", "x (line 1): too large for a number"),
        ("a: {b: 1, b: 2}", "a (line 1): the key 'b' is given twice"),
        ("<<: 1", "<< (line 1): brings in something other than a mapping"),
        ("x: *TIGER", "x (line 1): a text that begins with * names no anchor"),
        ("x: !TIGER y", "x (line 1): a value that begins with ! is a tag"),
        ("x: 'TIGER", "not YAML: line 1: found unexpected end of stream"),
        ('x: "TIGER\\q"', "not YAML: line 1: found unknown escape character"),
        ("x: TIGER: 1", "not YAML: line 1: mapping values are not allowed"),
        ("x: 1\0", "not YAML: at character 4: control characters are not allowed"),
    ],
)
def test_refusals(text: str, says: str) -> None:
    """By place and line, without the value."""
    with pytest.raises(ConfigError) as refused:
        read_document(text)
    assert says in str(refused.value)
    assert "TIGER" not in str(refused.value)
    assert len(str(refused.value)) < 300
