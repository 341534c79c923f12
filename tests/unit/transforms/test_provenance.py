"""Records that say where they are from, and stop where they have been."""

from __future__ import annotations

from collections import Counter
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirror_ray.model.names import FlowName
from mirror_ray.model.policy import DefaultReplicationPolicy
from mirror_ray.model.replication_paths import duplicate_paths
from mirror_ray.transforms.provenance import HEADER, Origin, Provenance
from mirror_ray.transforms.record import Record


def record(*headers: tuple[str, bytes | None], topic: str = "orders", offset: int = 7) -> Record:
    """Of partition 3."""
    return Record(b"k", b"v", headers, 1, topic, 3, offset)


def judge(source: str, target: str, max_hops: int | None = None) -> Provenance:
    """Between clusters of these ids."""
    return Provenance(lambda: (source, target), max_hops)


def passed(judged: object) -> Record:
    """The record that went on."""
    assert isinstance(judged, Record), judged
    return judged


def test_a_new_record_gets_the_header_behind_its_own() -> None:
    """Everything else stays."""
    own = ("trace", b"1")
    (found,) = judge("idA", "idB")([record(own)])
    assert found == record(own, (HEADER, b"idA/orders/3/7/1"))


def test_a_copy_keeps_its_origin_and_counts_its_hops() -> None:
    """With the clusters between; it does not go to one that it has been on."""
    first = passed(judge("idA", "idB")([record()])[0])._replace(offset=90)
    second = passed(judge("idB", "idC")([first])[0])._replace(offset=800)
    assert second.headers == ((HEADER, b"idA/orders/3/7/2/idB"),)
    third = passed(judge("idC", "idD")([second])[0])
    assert Origin.parse(third.headers[0][1]) == Origin("idA", "orders", 3, 7, 3, ("idB", "idC"))
    for back in ("idA", "idB"):
        assert judge("idC", back)([second]) == [None]


def test_hops_are_bounded() -> None:
    """With one, only what was written on the source itself goes on."""
    first = passed(judge("idA", "idB")([record()])[0])
    assert judge("idB", "idC", 1)([first, record()])[0] is None
    assert judge("idB", "idC", 2)([first])[0] is not None


def test_what_was_written_anew_is_new() -> None:
    """An application that passes headers on: into another topic, or back on the cluster that the record is from."""
    copied = (HEADER, b"idA/orders/3/7/1")
    elsewhere = passed(judge("idB", "idA")([record(copied, topic="bills")])[0])
    assert elsewhere.headers == ((HEADER, b"idB/bills/3/7/1"),)
    home = passed(judge("idA", "idB")([record(copied)])[0])
    assert home.headers == ((HEADER, b"idA/orders/3/7/1"),)


def test_other_names_of_the_same_topic() -> None:
    """Under a policy that renames, the name where it was first written counts."""
    copied = record((HEADER, b"idA/orders/3/7/1"), topic="A.orders")
    provenance = Provenance(lambda: ("idB", "idC"), names=DefaultReplicationPolicy().upstream_names)
    assert passed(provenance([copied])[0]).headers == ((HEADER, b"idA/orders/3/7/2/idB"),)


@pytest.mark.parametrize(
    "value", [None, b"", b"x", b"a/b/c/d/e", b"a/b/1/2/2", b"a/b/1/2/1/c", b"/b/1/2/1", b"\xff/b/1/2/1"]
)
def test_a_header_that_is_none_of_ours_is_an_error(value: bytes | None) -> None:
    """Of this record alone."""
    first, second = judge("idA", "idB")([record((HEADER, value)), record()])
    assert isinstance(first, ValueError)
    assert isinstance(second, Record)


_FLOWS = [FlowName(*ends) for ends in permutations("ABCD", 2)]


@given(flows=st.dictionaries(st.sampled_from(_FLOWS), st.one_of(st.none(), st.integers(1, 3)), max_size=7))
def test_nothing_doubles_unless_ways_are_said_to(flows: dict[FlowName, int | None]) -> None:
    """Every flow copies all that it sees, for ever: a record is on each cluster as often as there are ways to it."""
    on: dict[str, list[Record]] = {cluster: [record(offset=ord(cluster))] for cluster in "ABCD"}
    seen = dict.fromkeys(flows, 0)
    judges = {flow: judge(flow.source, flow.target, most) for flow, most in flows.items()}
    moved = True
    while moved:
        moved = False
        for flow, judged in judges.items():
            for result in judged(on[flow.source][seen[flow] :]):
                if isinstance(result, Record):
                    on[flow.target].append(result._replace(offset=1000 + len(on[flow.target])))
            moved |= seen[flow] != len(on[flow.source])
            seen[flow] = len(on[flow.source])
    several = {
        (origin, cluster)
        for cluster, records in on.items()
        for origin, times in Counter(Origin.parse(copied.headers[0][1]).cluster for copied in records[1:]).items()
        if times > 1
    }
    assert several == set(duplicate_paths(flows))


def test_ways_of_usual_topologies() -> None:
    """A pair and a line need no bound; a full mesh of three is single with one hop, a ring with none."""

    def flows(text: str, most: int | None = None) -> dict[FlowName, int | None]:
        return {FlowName.parse(name): most for name in text.split()}

    assert not duplicate_paths(flows("A->B B->A"))
    assert not duplicate_paths(flows("A->B B->A B->C C->B"))
    assert not duplicate_paths(flows("A->B B->C C->A"))
    mesh = "A->B B->A B->C C->B A->C C->A"
    assert set(duplicate_paths(flows(mesh))) == set(permutations("ABC", 2))
    assert not duplicate_paths(flows(mesh, 1))
