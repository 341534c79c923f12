"""A group in a topic that both sides write goes on behind nothing that it has not read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from mirror_ray.config.settings import FlowSettings, ProvenanceSettings, TopicSettings, with_all_names
from mirror_ray.model.names import FlowName
from mirror_ray.model.segment import Segment
from mirror_ray.offsets.bidirectional import (
    BothLogEnds,
    is_in_map,
    merge_sides,
    sources_part,
    targets_part,
    why_not_synced,
)
from mirror_ray.offsets.map import DEFAULT_LIMIT, MapTail, SegmentGap, SegmentMap
from mirror_ray.offsets.translation import Translation, answer, answer_before_gap

#: A record: who wrote it, and its number there.
Log = list[tuple[str, int]]


@dataclass
class Way:
    """One flow: copies what its source wrote itself, and tells of it later."""

    writer: str
    source: Log
    target: Log
    position: int = 0
    runs: list[tuple[int, int]] = field(default_factory=list)
    #: What was told: runs of (source offset, target offset), and the position.
    told: tuple[int, int, int] = (0, 0, -1)
    began_at: int = 0

    def step(self) -> None:
        """Look at the next record."""
        if self.position < len(self.source):
            record = self.source[self.position]
            if record[0] == self.writer:
                self.runs.append((self.position, len(self.target)))
                self.target.append(record)
            self.position += 1

    def tell(self) -> None:
        """What a replicator says every second."""
        self.told = (len(self.runs), self.position, 0)

    def map(self, limit: int = DEFAULT_LIMIT) -> SegmentMap:
        """What is known of it, where so many segments are kept."""
        number, position, known = self.told
        segments = SegmentMap(limit)
        if known < 0:
            return segments
        segments.add(Segment(0, self.began_at, 0, 0), 0)
        for at, (source, target) in enumerate(self.runs[:number]):
            segments.add(Segment(source, target, 1, at), source + 1)
        segments.reached(position)
        return segments


class World:
    """Two clusters, A and B, each written to, and a flow each way."""

    def __init__(self, before: int) -> None:
        """``before``: records of B that are there when the flows begin."""
        self.a: Log = []
        self.b: Log = [("b", number) for number in range(before)]
        self.there, self.back = Way("a", self.a, self.b, began_at=before), Way("b", self.b, self.a)
        self.seen: list[BothLogEnds] = []

    def do(self, what: str) -> None:
        """One thing that happens."""
        if what in "ab":
            log = self.a if what == "a" else self.b
            log.append((what, sum(writer == what for writer, _ in log)))
        elif what == "look":
            self.seen.append(BothLogEnds(len(self.b), len(self.a)))
        else:
            way = self.there if what.startswith("there") else self.back
            way.tell() if what.endswith("tells") else way.step()

    def settle(self) -> None:
        """Everything is copied and told."""
        while self.there.position < len(self.a) or self.back.position < len(self.b):
            self.there.step()
            self.back.step()
        self.there.tell()
        self.back.tell()

    def place(self, offset: int, limit: int = DEFAULT_LIMIT) -> Translation:
        """Where a group that has read A up to there goes on in B; the ends are looked at now, at last."""
        self.do("look")
        there, back = self.there.map(limit), self.back.map(limit)
        found: list[Translation | None] = []
        for segments, is_back in ((there, False), (back, True)):
            told = answer(segments, offset, back=is_back) if is_in_map(segments.tail, offset, back=is_back) else None
            found.append(answer_before_gap(told, "a gap", back=is_back) if isinstance(told, SegmentGap) else told)
        return merge_sides(
            sources_part(there.tail, offset, self.seen, found[0], "A"),
            targets_part(back.tail, self.seen, found[1], "B"),
        )


_WHAT = st.sampled_from(["a", "b", "there", "back", "there", "back", "there tells", "back tells", "look"])


@settings(max_examples=500)
@given(st.integers(0, 3), st.lists(_WHAT, max_size=60), st.data())
def test_nothing_is_passed_over(before: int, happens: Sequence[str], data: st.DataObject) -> None:
    """Whatever the order in both logs is, how little is told, and what comes later; exact: nothing is read again."""
    world = World(before)
    for what in happens:
        world.do(what)
    offset = data.draw(st.integers(0, len(world.a)), label="offset")
    read = set(world.a[:offset])
    # Of a map that keeps little, which others' records leave with many segments, gaps can't be read on the source.
    found = world.place(offset, data.draw(st.sampled_from([4, DEFAULT_LIMIT]), label="limit"))
    for what in data.draw(st.lists(_WHAT, max_size=20), label="later"):
        world.do(what)
    world.settle()
    assert set(world.a) == set(world.b)
    if found.offset is not None:
        assert set(world.b[: found.offset]) <= read
        assert not found.exact or not read & set(world.b[found.offset :])
        assert found.exact or found.reason
    again = world.place(offset)
    assert again.offset is not None
    assert set(world.b[: again.offset]) <= read
    # No later place could be given.
    assert again.offset == len(world.b) or world.b[again.offset] not in read
    assert not again.waits
    assert not again.exact or not read & set(world.b[again.offset :])


@given(st.integers(0, 3), st.lists(_WHAT, max_size=60))
@example(0, [])
@example(0, ["b", "b"])
@example(0, ["a"])
def test_at_the_end_of_both_it_is_told_the_end(before: int, happens: Sequence[str]) -> None:
    """Exactly, also where one side wrote nothing."""
    world = World(before)
    for what in happens:
        world.do(what)
    world.settle()
    assert world.place(len(world.a)) == Translation(offset=len(world.b))


def test_traffic_from_one_side_does_not_hold_a_group_up() -> None:
    """The other side's last record lies far behind; what is told a moment ago is enough."""
    world = World(0)
    for what in ("a", "there", *["b", "back", "there"] * 50, "there tells", "back tells", "look"):
        world.do(what)
    middle = world.place(31)
    assert (middle.offset, middle.exact) == (31, True)
    for what in (*["b", "back", "there"] * 5,):
        world.do(what)
    # Known is what was copied of the first 50, and the ends of then and of now.
    near = world.place(54)
    assert (near.offset, near.waits) == (50, True)


def test_what_is_not_known_is_waited_for() -> None:
    """Each side's own, with the reason."""
    world = World(1)
    assert "no record of the partition was copied yet" in (world.place(0).reason or "")
    world.there.tell()
    assert "the flow back has told nothing" in (world.place(0).reason or "")


def _flows(*names: str, hops: int | None = None, **only: str) -> dict[str, FlowSettings]:
    flows = with_all_names(
        FlowSettings(
            name=FlowName.parse(name),
            enabled=True,
            topics=TopicSettings(include=(only.get(name.replace("->", ""), ".*"),)),
            provenance=ProvenanceSettings(enabled=True, max_hops=hops),
        )
        for name in names
    )
    return {str(flow.name): flow for flow in flows}


@pytest.mark.parametrize(
    ("names", "hops", "why"),
    [
        (("A->B", "B->A"), None, None),
        (("A->B",), None, "no flow B->A"),
        (("A->B", "B->C", "C->A"), None, "no flow B->A"),
        (("A->B", "B->A", "A->C", "C->A"), None, None),
        (("A->B", "B->A", "B->C", "C->B"), None, None),
        (("A->B", "B->A", "B->C", "C->B"), 1, "may not pass on what C wrote"),
        (("A->B", "B->A", "B->C", "C->B", "A->C", "C->A"), 1, "what C wrote comes to each"),
    ],
)
def test_where_both_maps_tell_of_everything(names: tuple[str, ...], hops: int | None, why: str | None) -> None:
    """A pair, and a hub with its spokes; in a ring or a full mesh they don't."""
    found = why_not_synced(_flows(*names, hops=hops)["A->B"], "orders")
    assert (found is None) is (why is None)
    assert why is None or why in (found or "")


def test_flows_of_other_topics_do_not_count() -> None:
    """By their filters."""
    mesh = ("A->B", "B->A", "B->C", "C->B", "A->C", "C->A")
    assert why_not_synced(_flows(*mesh, hops=1, CB="bills")["A->B"], "orders") is None


TOLD = MapTail(source=5, target=6, reached=5)


def test_an_end_counts_only_if_the_source_held_nothing_more_then() -> None:
    """What it held may lie before that end of the target."""
    early = sources_part(TOLD, 5, [BothLogEnds(9, 7)], None, "A").translation
    assert (early.offset, early.exact) == (6, False)
    settled = sources_part(TOLD, 5, [BothLogEnds(9, 5)], None, "A").translation
    assert (settled.offset, settled.exact) == (9, True)


def test_a_position_behind_the_copy_is_not_known() -> None:
    """What lies between may be copied yet."""
    found = sources_part(TOLD, 8, [BothLogEnds(9, 8)], None, "A")
    assert (found.translation.offset, found.translation.exact, found.translation.waits, found.read_up_to) == (
        9,
        False,
        True,
        None,
    )


def test_what_the_target_wrote_is_known_once_all_of_it_came_back() -> None:
    """As it was seen last."""
    assert targets_part(TOLD, [BothLogEnds(9, 0), BothLogEnds(5, 0)], None, "B").translation.exact
    assert not targets_part(TOLD, [BothLogEnds(5, 0), BothLogEnds(9, 0)], None, "B").translation.exact
    assert not targets_part(TOLD, [], None, "B").translation.exact
