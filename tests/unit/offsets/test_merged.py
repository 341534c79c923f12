"""One offset for a group in several topics that are copied into one: nothing is passed over."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from mirror_ray.model.commit import CommittedOffset
from mirror_ray.model.names import TopicPartition
from mirror_ray.offsets.group_book import GroupBook, decode_written, encode_written
from mirror_ray.offsets.group_sync import Write
from mirror_ray.offsets.merged import SOURCES_HEADER, Part, decode_sources, encode_sources, has_gone_back, merge
from mirror_ray.offsets.translate import Translation
from mirror_ray.records.internal import Checkpoint

ALL = TopicPartition("all", 0)


def part(topic: str, committed: int, place: int | None, *, at_end: bool = False, exact: bool = True) -> Part:
    """A position of a group."""
    return Part(topic, committed, Translation(offset=place, exact=exact, reason=None if exact else "why"), at_end)


@given(st.lists(st.sampled_from("abc"), max_size=40), st.data())
def test_nothing_is_passed_over(log: list[str], data: st.DataObject) -> None:
    """The remote log holds records of three topics in any order; the group has read some of each."""
    parts, unread = [], []
    for topic in "abc":
        places = [at for at, of in enumerate(log) if of == topic]
        read = data.draw(st.integers(0, len(places)), label=topic)
        # Behind the last record that was copied, as the map says it.
        place = places[read] if read < len(places) else (places[-1] + 1 if places else None)
        parts.append(part(topic, read, place, at_end=read == len(places)))
        unread += places[read:]
    found = merge(parts, len(log))
    assert found.offset == min(unread, default=len(log))
    for each, shown in zip(parts, found.places, strict=True):
        again = [at for at, of in enumerate(log) if of == each.topic][: each.committed]
        assert shown.offset == found.offset
        assert not (shown.exact and any(at >= found.offset for at in again))
        assert shown.exact or (shown.reason is not None and found.lead.topic in shown.reason)


def test_a_group_of_one_topic_is_as_if_it_were_alone() -> None:
    """Its very place, or why there is none."""
    for alone in (part("a", 3, 17), part("a", 3, None, exact=False), part("a", 3, 17, at_end=True)):
        assert merge([alone], 99).places == (alone.place,)


def test_a_place_that_is_not_known_is_waited_for() -> None:
    """What was appended and is not told yet could be before the others' places."""
    found = merge([part("a", 3, 17), part("b", 1, None, exact=False)], 99)
    assert found.offset is None
    assert [each.offset for each in found.places] == [None, None]
    assert "b" in (found.places[0].reason or "")
    # Nothing is behind its position on the source: nothing of it can be before the end.
    assert merge([part("a", 3, 17), part("b", 0, None, at_end=True)], 99).offset == 17


def test_an_idle_topic_holds_nothing_up() -> None:
    """Its last record lies far behind, and the group has read it."""
    found = merge([part("a", 500, 900), part("b", 3, 12, at_end=True)], 900)
    assert (found.offset, [each.exact for each in found.places]) == (900, [True, True])


def test_sources_in_a_checkpoint() -> None:
    """They come back; what is no such header says nothing."""
    assert decode_sources([(SOURCES_HEADER, encode_sources({"a": 1, "b": 2}))]) == {"a": 1, "b": 2}
    for value in (None, b"", b"{", b"[1]"):
        assert decode_sources([(SOURCES_HEADER, value)]) == {}


def test_gone_back() -> None:
    """A lower offset in one of the topics, or a topic that the group did not read before."""
    assert has_gone_back({"a": 5, "b": 5}, {"a": 9, "b": 4})
    assert has_gone_back({"a": 5}, {"a": 5, "b": 0})
    assert not has_gone_back({"a": 5, "b": 5}, {"a": 5})
    assert not has_gone_back({}, {"a": 5})


class Carried:
    """A group of two topics, by the book, with a target that takes every commit."""

    def __init__(self) -> None:
        self.book = GroupBook()
        self.target: int | None = None
        self.topic: tuple[Checkpoint, tuple[int, ...], dict[str, int]] | None = None

    def round(self, end: int, **positions: tuple[int, int]) -> int | None:
        """``positions``: source offset and place of each topic."""
        offsets = {TopicPartition(topic, 0): CommittedOffset(offset) for topic, (offset, _) in positions.items()}
        self.book.committed("g", offsets)
        places = {topic: Translation(offset=place) for topic, (_, place) in positions.items()}
        parts = [Part(topic, offset, places[topic], False) for topic, (offset, _) in positions.items()]
        found = merge(parts, end)
        lead = self.book.entry("g", TopicPartition(found.lead.topic, 0))
        place = found.places[parts.index(found.lead)]
        self.book.merge("g", ALL, lead, place, {topic: offset for topic, (offset, _) in positions.items()})
        self.book.drop_merged([("g", ALL)])
        entry = self.book.merged["g"][ALL]
        act = self.book.compare(entry, self.target) if entry in self.book.unsynced else None
        for unsaid in list(self.book.unsaid):
            checkpoint = self.book.checkpoint(unsaid, ALL)
            if checkpoint is not None:
                self.topic = checkpoint, unsaid.written, dict(unsaid.sources)
            self.book.said(unsaid, checkpoint, unsaid.written)
        if isinstance(act, Write):
            self.target = act.offset
            self.book.wrote(entry, None)
        return self.target

    def dies(self) -> None:
        """The next life knows what is in the checkpoints topic."""
        self.book = GroupBook()
        if self.topic is not None:
            checkpoint, written, sources = self.topic
            header = decode_written(checkpoint, ((b"mirror-ray.written", encode_written(written)),))
            self.book.remember_merged(checkpoint, header, decode_sources([(SOURCES_HEADER, encode_sources(sources))]))


def test_a_group_moves_by_the_topic_that_is_behind() -> None:
    """Forward with it, back when it goes back or another topic is read, also while nobody looked; else never back."""
    carried = Carried()
    assert carried.round(100, a=(5, 50), b=(7, 30)) == 30
    assert carried.round(100, a=(5, 50), b=(9, 60)) == 50
    carried.dies()
    assert carried.round(100, a=(6, 55), b=(9, 60)) == 55
    # By a map that has become coarser the place is before that: the group has not gone back.
    carried.dies()
    assert carried.round(100, a=(6, 20), b=(9, 60)) == 55
    carried.dies()
    assert carried.round(100, a=(6, 55), b=(2, 10)) == 10
    assert carried.round(100, a=(6, 55), b=(9, 60), c=(0, 3)) == 3


def test_a_commit_of_somebody_else_is_kept() -> None:
    """As in a topic of one source."""
    carried = Carried()
    carried.round(100, a=(5, 50), b=(7, 30))
    carried.target = 33
    assert carried.round(100, a=(6, 55), b=(8, 40)) == 33
    entry = carried.book.merged["g"][ALL]
    assert entry.reason == "offset 33 on the target was committed there by somebody else"
    assert replace(entry.translation or Translation(offset=None), reason=None) == Translation(offset=40)
