"""One offset for a group in several topics that are copied into one: nothing is passed over."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from mirror_ray.groups.checkpoints import GroupCheckpoint, decode_sources, decode_unsubscribed
from mirror_ray.groups.commit_rules import WriteOffset, has_gone_back
from mirror_ray.groups.merged_topics import MergedPart, merge, uncommitted_topics, unsubscribed_topics
from mirror_ray.groups.offset_state import GroupOffsetState
from mirror_ray.model.committed_offset import CommittedOffset
from mirror_ray.model.names import TopicPartition
from mirror_ray.model.subscription import Subscription
from mirror_ray.offsets.translation import Translation
from mirror_ray.records.mm2_records import CheckpointRecord

ALL = TopicPartition("all", 0)


def part(topic: str, committed: int, place: int | None, *, at_end: bool = False, exact: bool = True) -> MergedPart:
    """A position of a group."""
    return MergedPart(topic, committed, Translation(offset=place, exact=exact, reason=None if exact else "why"), at_end)


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
    for merged, shown in zip(parts, found.translations, strict=True):
        again = [at for at, of in enumerate(log) if of == merged.topic][: merged.committed]
        assert shown.offset == found.offset
        assert not (shown.exact and any(at >= found.offset for at in again))
        assert shown.exact or (shown.reason is not None and found.lead.topic in shown.reason)


SUBSCRIPTIONS = st.none() | st.frozensets(st.sampled_from("ab"), min_size=1).map(Subscription)
THERE = ("g", ALL)


@given(
    st.lists(st.sampled_from("ab"), max_size=30),
    st.dictionaries(st.sampled_from("ab"), st.integers(0, 30), min_size=1),
    SUBSCRIPTIONS,
    SUBSCRIPTIONS,
)
def test_never_ahead_of_what_a_group_may_have_to_read(
    log: list[str], read: dict[str, int], before: Subscription | None, now: Subscription | None
) -> None:
    """Any interleaving of two topics; the group has committed in one of them or in both, and has members or not.

    ``before``: what they read when they were seen last.
    """
    sources = [TopicPartition(topic, 0) for topic in "ab"]
    places = {topic: [at for at, of in enumerate(log) if of == topic] for topic in "ab"}
    read = {topic: min(offset, len(places[topic])) for topic, offset in read.items()}

    def part_of(topic: str, offset: int, why: str | None = None) -> MergedPart:
        own = places[topic]
        place = own[offset] if offset < len(own) else (own[-1] + 1 if own else None)
        return MergedPart(topic, offset, Translation(offset=place), offset == len(own), why)

    others = [source for source in sources if source.topic not in read]
    seen = unsubscribed_topics(now, others, unsubscribed_topics(before, others, ()))
    left = uncommitted_topics({THERE: set(read)}, {ALL: sources}, {} if now is None else {"g": now}, {THERE: seen})
    parts = [part_of(*item) for item in read.items()] + [part_of(other.source.topic, 0, other.why) for other in left]
    found = merge(parts, len(log))
    member_of = now or before
    reads = set(read) | ({topic for topic in "ab" if member_of.covers(topic)} if member_of else {"a", "b"})
    unread_there = [at for topic in reads for at in places[topic][read.get(topic, 0) :]]
    if found.offset is None:
        assert not places[next(iter(reads))]
        return
    assert found.offset <= min(unread_there, default=len(log))
    if len(reads) == 1:
        # What is known to read one topic alone is put at its very record there.
        assert found.translations[0] == parts[0].translation
    for merged, shown in zip(parts, found.translations, strict=True):
        again = places[merged.topic][: merged.committed]
        assert not (shown.exact and any(at >= found.offset for at in again))
        assert shown.exact or shown.reason


def test_what_a_group_has_to_read_of_other_topics() -> None:
    """By its members; without any by what was seen of them; where nobody knows, all of it."""

    def left(*, members: Subscription | None = None, unsubscribed: Collection[str] = ()) -> list[str]:
        sources = [TopicPartition(topic, 0) for topic in "abc"]
        subscriptions = {} if members is None else {"g": members}
        found = uncommitted_topics({THERE: {"a"}}, {ALL: sources}, subscriptions, {THERE: unsubscribed})
        return [f"{other.source.topic}: {other.why.split(',', maxsplit=1)[0]}" for other in found]

    assert left(members=Subscription(frozenset("ab"))) == ["b: it reads b"]
    assert left(members=Subscription(frozenset("a"), frozenset({"[bc]"}))) == ["b: it reads b", "c: it reads c"]
    assert left(members=Subscription(frozenset(), frozenset({"(?broken"}))) == ["b: it reads b", "c: it reads c"]
    assert left(members=Subscription(frozenset("a"))) == []
    nobody = "no members were seen that tell whether it reads"
    assert left() == [f"b: {nobody} b", f"c: {nobody} c"]
    assert left(unsubscribed="b") == [f"c: {nobody} c"]
    # What members say now counts.
    assert left(members=Subscription(frozenset("ab")), unsubscribed="b") == ["b: it reads b"]


def test_what_members_do_not_read_is_remembered() -> None:
    """Until they are seen again; of a topic that was merged later nothing is known."""
    b, c = TopicPartition("b", 0), TopicPartition("c", 0)
    seen = unsubscribed_topics(Subscription(frozenset("a")), [b], ())
    assert seen == {"b"}
    assert unsubscribed_topics(None, [b, c], seen) == {"b"}
    assert unsubscribed_topics(Subscription(frozenset("ab")), [b, c], seen) == {"c"}


def test_headers_of_a_checkpoint_come_back() -> None:
    """The sources, and the topics that are not read; a value that does not parse counts as missing."""
    record = CheckpointRecord(group="g", partition=ALL, upstream_offset=5, downstream_offset=50)
    for sources, unsubscribed in ((dict[str, int](), frozenset[str]()), ({"a": 1, "b": 2}, frozenset({"d", "c"}))):
        checkpoint = GroupCheckpoint(checkpoint=record, written=(7, 3), sources=sources, unsubscribed=unsubscribed)
        assert GroupCheckpoint.decode(*checkpoint.encode()) == checkpoint
    for value in (None, b"", b"{", b"{}", b"7"):
        assert decode_unsubscribed(value) == frozenset()
    for value in (None, b"", b"{", b"[1]"):
        assert decode_sources(value) == {}


def test_a_group_of_one_topic_is_as_if_it_were_alone() -> None:
    """Its very place, or why there is none."""
    for alone in (part("a", 3, 17), part("a", 3, None, exact=False), part("a", 3, 17, at_end=True)):
        assert merge([alone], 99).translations == (alone.translation,)


def test_a_place_that_is_not_known_is_waited_for() -> None:
    """What was appended and is not told yet could be before the others' places."""
    found = merge([part("a", 3, 17), part("b", 1, None, exact=False)], 99)
    assert found.offset is None
    assert [shown.offset for shown in found.translations] == [None, None]
    assert "b" in (found.translations[0].reason or "")
    # Nothing is behind its position on the source: nothing of it can be before the end.
    assert merge([part("a", 3, 17), part("b", 0, None, at_end=True)], 99).offset == 17


def test_an_idle_topic_holds_nothing_up() -> None:
    """Its last record lies far behind, and the group has read it."""
    found = merge([part("a", 500, 900), part("b", 3, 12, at_end=True)], 900)
    assert (found.offset, [shown.exact for shown in found.translations]) == (900, [True, True])


def test_gone_back() -> None:
    """A lower offset in one of the topics, or a topic that the group did not read before."""
    assert has_gone_back({"a": 5, "b": 5}, {"a": 9, "b": 4})
    assert has_gone_back({"a": 5}, {"a": 5, "b": 0})
    assert not has_gone_back({"a": 5, "b": 5}, {"a": 5})
    assert not has_gone_back({}, {"a": 5})


class MergedSync:
    """A group of two topics, by the state, with a target that takes every commit."""

    def __init__(self) -> None:
        self.state = GroupOffsetState()
        self.target: int | None = None
        self.topic: tuple[CheckpointRecord, tuple[int, ...], dict[str, int]] | None = None

    def round(self, end: int, **positions: tuple[int, int]) -> int | None:
        """``positions``: source offset and place of each topic."""
        offsets = {TopicPartition(topic, 0): CommittedOffset(offset) for topic, (offset, _) in positions.items()}
        self.state.committed("g", offsets)
        places = {topic: Translation(offset=place) for topic, (_, place) in positions.items()}
        parts = [MergedPart(topic, offset, places[topic], False) for topic, (offset, _) in positions.items()]
        found = merge(parts, end)
        lead = self.state.entry("g", TopicPartition(found.lead.topic, 0)).source
        assert lead is not None
        place = found.translations[parts.index(found.lead)]
        self.state.merge("g", ALL, lead, place, {topic: offset for topic, (offset, _) in positions.items()})
        self.state.keep_merged([("g", ALL)])
        entry = self.state.merged["g"][ALL]
        act = self.state.compare(entry, self.target) if entry in self.state.unsynced else None
        for unemitted in list(self.state.unemitted):
            checkpoint = self.state.checkpoint(unemitted, ALL)
            if checkpoint is not None:
                self.topic = checkpoint, unemitted.written, dict(unemitted.sources)
            self.state.emitted(unemitted, checkpoint, unemitted.written)
        if isinstance(act, WriteOffset):
            self.target = act.offset
            self.state.wrote(entry, None)
        return self.target

    def dies(self) -> None:
        """The next life knows what is in the checkpoints topic."""
        self.state = GroupOffsetState()
        if self.topic is not None:
            checkpoint, written, sources = self.topic
            emitted = GroupCheckpoint(checkpoint=checkpoint, written=written, sources=sources).encode()
            found = GroupCheckpoint.decode(*emitted)
            self.state.restore_merged(checkpoint, found.written, found.sources)


def test_a_group_moves_by_the_topic_that_is_behind() -> None:
    """Forward with it, back when it goes back or another topic is read, also while nobody looked; else never back."""
    sync = MergedSync()
    assert sync.round(100, a=(5, 50), b=(7, 30)) == 30
    assert sync.round(100, a=(5, 50), b=(9, 60)) == 50
    sync.dies()
    assert sync.round(100, a=(6, 55), b=(9, 60)) == 55
    # By a map that has become coarser the place is before that: the group has not gone back.
    sync.dies()
    assert sync.round(100, a=(6, 20), b=(9, 60)) == 55
    sync.dies()
    assert sync.round(100, a=(6, 55), b=(2, 10)) == 10
    assert sync.round(100, a=(6, 55), b=(9, 60), c=(0, 3)) == 3


def test_what_is_not_read_is_told_by_itself() -> None:
    """A checkpoint is emitted when that alone has changed, and the next life knows it."""
    state = GroupOffsetState()
    source, place = CommittedOffset(5), Translation(offset=50)
    state.merge("g", ALL, source, place, {"a": 5})
    entry = state.merged["g"][ALL]
    state.emitted(entry, state.checkpoint(entry, ALL), entry.written)
    state.merge("g", ALL, source, place, {"a": 5})
    assert entry not in state.unemitted
    state.merge("g", ALL, source, place, {"a": 5}, unsubscribed=frozenset("b"))
    assert entry in state.unemitted
    checkpoint = state.checkpoint(entry, ALL)
    assert checkpoint is not None
    state.emitted(entry, checkpoint, entry.written)
    assert state.checkpoint(entry, ALL) is None
    later = GroupOffsetState()
    later.restore_merged(checkpoint, (), {"a": 5}, frozenset("b"))
    assert later.merged["g"][ALL].unsubscribed == frozenset("b")


def test_a_commit_of_somebody_else_is_kept() -> None:
    """As in a topic of one source."""
    sync = MergedSync()
    sync.round(100, a=(5, 50), b=(7, 30))
    sync.target = 33
    assert sync.round(100, a=(6, 55), b=(8, 40)) == 33
    entry = sync.state.merged["g"][ALL]
    assert entry.reason == "offset 33 on the target was committed there by somebody else"
    assert replace(entry.translation or Translation(offset=None), reason=None) == Translation(offset=40)


def test_what_was_copied_since_the_end_was_seen_is_read() -> None:
    """A group that has read all stands behind it."""
    assert merge([part("a", 5, 12, at_end=True), part("b", 3, 15)], 10).offset == 12
    assert merge([part("a", 5, 8, at_end=True), part("b", 3, 15)], 10).offset == 10
