"""Entries of the audit log: what they hold, how long they are, and which of them are shown."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirror_ray.model.audit import AuditEntry, AuditPrincipal, AuditQuery, decode_entry, encode_entry, entry_of, newest
from mirror_ray.model.cluster_change import ClusterChange, committed, many_committed
from mirror_ray.model.errors import CorruptRecordError
from mirror_ray.model.names import TopicPartition

_TEXT = st.text(max_size=5000)


def entry(**changed: Any) -> AuditEntry:
    """An entry; ``changed``: fields of it."""
    change = ClusterChange(kind="create_topic", cluster="B", subject="topic A.orders", after="3 partitions")
    made = entry_of(
        change, AuditPrincipal(system="mirror", component="coordinator"), "A->B", time_ms=5, id_="x", outcome="done"
    )
    return AuditEntry(**{name: changed.get(name, getattr(made, name)) for name in made.__slots__})


@given(subject=_TEXT, before=st.none() | _TEXT, after=st.none() | _TEXT, why=_TEXT, operator=st.none() | st.text())
def test_entries_survive_and_are_bounded(
    subject: str, before: str | None, after: str | None, why: str, operator: str | None
) -> None:
    """Whatever names and values there are."""
    change = ClusterChange(kind="set", cluster="", subject=subject, before=before, after=after, why=why)
    who = AuditPrincipal(system="mirror", component="c", operator=operator)
    made = entry_of(change, who, "A->B", time_ms=1, id_="i", outcome="intended").with_outcome("refused", "no" * 9000)
    key, value = encode_entry(made)
    assert decode_entry(value) == made
    assert key == b"i"
    assert all(len(text) <= 2000 for text in (made.subject, made.before or "", made.after or "", made.error or ""))


def test_the_format_is_as_documented() -> None:
    """docs/audit.md names these fields."""
    fields = json.loads(encode_entry(entry())[1])
    assert fields["version"] == 1
    assert set(fields) == {
        *("version", "time_ms", "id", "system", "flow", "component", "operator", "kind", "cluster", "subject"),
        *("before", "after", "why", "outcome", "error"),
    }


@pytest.mark.parametrize("value", [b"", b"[]", b"{}", b"7", b"\xff", encode_entry(entry())[1].replace(b'"x"', b"7")])
def test_what_is_no_entry_is_refused(value: bytes) -> None:
    """Somebody else may write there."""
    with pytest.raises(CorruptRecordError):
        decode_entry(value)


def test_the_newest_that_are_wanted_are_shown_once() -> None:
    """What came of an intention stands in its place, whichever was read first."""
    entries = [
        entry(id="a", time_ms=1, outcome="intended"),
        entry(id="a", time_ms=1, outcome="done"),
        entry(id="b", time_ms=2, outcome="done"),
        entry(id="b", time_ms=2, outcome="intended"),
        entry(id="c", time_ms=3, kind="pause", cluster=""),
        entry(id="d", time_ms=4, outcome="intended"),
    ]
    assert [(e.id, e.outcome) for e in newest(entries, AuditQuery())] == [
        ("a", "done"),
        ("b", "done"),
        ("c", "done"),
        ("d", "intended"),
    ]
    assert [entry.id for entry in newest(entries, AuditQuery(limit=2))] == ["c", "d"]
    assert [entry.id for entry in newest(entries, AuditQuery(kinds=frozenset({"pause"})))] == ["c"]
    assert [entry.id for entry in newest(entries, AuditQuery(cluster="B", since_ms=2))] == ["b", "d"]
    assert not newest(entries, AuditQuery(flow="B->A"))


def test_commits_of_a_group_are_one_line() -> None:
    """With a digest instead of places where there are many; the same places, the same digest."""
    few = {TopicPartition("orders", 1): 7, TopicPartition("orders", 0): 5}
    change = committed("B", "billing", {TopicPartition("orders", 0): 3, TopicPartition("other", 0): 1}, few)
    assert (change.before, change.after) == ("orders-0: 3", "orders-0: 5, orders-1: 7")
    assert committed("B", "billing", {}, few).before is None
    many = {TopicPartition("orders", number): number for number in range(1000)}
    told = committed("B", "billing", {}, many).after or ""
    assert told.startswith("1000 partitions of 1 topics, sha256 of all: ")
    assert told == committed("B", "billing", {}, dict(reversed(many.items()))).after
    rest = many_committed("B", {"g1": few, "g2": many})
    assert (rest.subject, (rest.after or "")[:16]) == ("2 more groups", "1002 partitions,")
