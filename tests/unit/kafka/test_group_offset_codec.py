"""OffsetFetch and OffsetCommit by hand say what kio's encoders and decoders say."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode
from kio.static.constants import EntityType

from mirror_ray.kafka.errors import error_info
from mirror_ray.kafka.group_offset_codec import (
    UNREADABLE,
    GroupOffsets,
    decode_offset_commit,
    decode_offset_fetch,
    encode_offset_commit,
    encode_offset_fetch,
)
from mirror_ray.model.committed_offset import CommittedOffset
from mirror_ray.model.names import TopicPartition
from tests.unit.kafka.group_brokers import NO_TIME, Fetched, FetchedState, encode_fetched, module, written

VERSIONS = st.sampled_from([6, 7, 8, 9])
NAMES = st.one_of(st.text(min_size=1, max_size=8), st.text("ab", min_size=120, max_size=140))
TEXTS = st.one_of(st.just(""), st.text(max_size=5), st.text("x", min_size=120, max_size=140))
INDEXES = st.integers(0, 2**31 - 1)
ERRORS = st.sampled_from([0, 0, 0, 3, 14, 29])
PARTITIONS = st.builds(
    Fetched, st.integers(-1, 2**63 - 1), st.integers(-1, 2**31 - 1), st.one_of(st.none(), TEXTS), ERRORS
)
STATES = st.builds(
    FetchedState,
    st.dictionaries(NAMES, st.dictionaries(INDEXES, PARTITIONS, max_size=4), max_size=3),
    st.sampled_from([0, 0, 0, 16, 30]),
)
COMMITS = st.dictionaries(st.builds(TopicPartition, NAMES, INDEXES), st.tuples(st.integers(0, 2**63 - 1), TEXTS))


def _offsets(state: FetchedState) -> GroupOffsets:
    found = GroupOffsets({}, {})
    for topic, partitions in state.topics.items():
        for index, (offset, leader_epoch, metadata, code) in partitions.items():
            if code:
                found.errors[TopicPartition(topic, index)] = error_info(code)
            elif offset >= 0:
                found.offsets[TopicPartition(topic, index)] = CommittedOffset(offset, leader_epoch, metadata or "")
    return found


def _decode(version: int, states: dict[str, FetchedState], expected: dict[str, bytes]) -> Any:
    return decode_offset_fetch(version, memoryview(encode_fetched(version, states)), list(states), expected)[0]


@settings(max_examples=40)
@given(VERSIONS, st.lists(NAMES, min_size=1, max_size=5, unique=True), st.booleans())
def test_request_is_the_same_as_kios(version: int, groups: list[str], require_stable: bool) -> None:
    """All topics, stable offsets only if asked so, asked by no member; one group per request before version 8."""
    m: Any = module("offset_fetch", version, EntityType.request)
    stable = {"require_stable": require_stable} if version >= 7 else {}
    if version < 8:
        groups = groups[:1]
        request = m.OffsetFetchRequest(group_id=groups[0], topics=None, **stable)
    else:
        entries = tuple(m.OffsetFetchRequestGroup(group_id=group, topics=None) for group in groups)
        request = m.OffsetFetchRequest(groups=entries, **stable)
    assert encode_offset_fetch(version, groups, stable=require_stable) == written(request)


@settings(max_examples=40)
@given(VERSIONS, st.dictionaries(NAMES, STATES, min_size=1, max_size=4))
def test_response_says_what_kio_wrote(version: int, states: dict[str, FetchedState]) -> None:
    """Offsets, epochs, metadata and errors come out; an offset of -1 is none."""
    states = states if version >= 8 else dict(list(states.items())[:1])
    fetched = _decode(version, states, {})
    assert [group.group for group in fetched] == list(states)
    for group in fetched:
        assert group.error_code == states[group.group].error_code
        assert group.offsets == _offsets(states[group.group])


@settings(max_examples=40)
@given(VERSIONS, st.dictionaries(NAMES, st.tuples(STATES, STATES), min_size=1, max_size=4))
def test_only_what_is_equal_is_taken_for_unchanged(
    version: int, states: dict[str, tuple[FetchedState, FetchedState]]
) -> None:
    """Whatever the groups said before and say now: those whose bytes are the same are not decoded, all others are."""
    states = states if version >= 8 else dict(list(states.items())[:1])
    before = _decode(version, {group: old for group, (old, _) in states.items()}, {})
    now = _decode(
        version, {group: new for group, (_, new) in states.items()}, {group.group: group.raw for group in before}
    )
    for group in now:
        old, new = states[group.group]
        if group.raw is None:
            assert _offsets(old) == _offsets(new)
            assert old.error_code == new.error_code
        else:
            assert old != new
            assert group.offsets == _offsets(new)


@settings(max_examples=40)
@given(VERSIONS, STATES, st.data())
def test_response_that_breaks_off_is_refused(version: int, state: FetchedState, data: st.DataObject) -> None:
    """No beginning of a response is read as a response."""
    whole = encode_fetched(version, {"g": state})
    part = whole[: data.draw(st.integers(0, len(whole) - 2))]
    with pytest.raises(UNREADABLE):
        decode_offset_fetch(version, memoryview(part), ["g"], {})


@settings(max_examples=40)
@given(st.sampled_from([8, 9]), NAMES, COMMITS)
def test_commit_is_the_same_as_kios(version: int, group: str, offsets: dict[TopicPartition, tuple[int, str]]) -> None:
    """A simple consumer's: generation -1, no member id, no leader epochs; partitions by topic."""
    m: Any = module("offset_commit", version, EntityType.request)
    topics: dict[str, list[Any]] = {}
    for partition, (offset, metadata) in offsets.items():
        entry = m.OffsetCommitRequestPartition(
            partition_index=partition.partition, committed_offset=offset, committed_metadata=metadata
        )
        topics.setdefault(partition.topic, []).append(entry)
    request = m.OffsetCommitRequest(
        group_id=group,
        member_id="",
        topics=tuple(m.OffsetCommitRequestTopic(name=name, partitions=tuple(ps)) for name, ps in topics.items()),
    )
    assert encode_offset_commit(group, offsets.items()) == written(request)


@settings(max_examples=40)
@given(st.dictionaries(NAMES, st.dictionaries(INDEXES, ERRORS, max_size=4), max_size=3))
def test_commits_answer_says_what_kio_wrote(codes: dict[str, dict[int, int]]) -> None:
    """An error code for each partition."""
    m: Any = module("offset_commit", 9, EntityType.response)
    topics = tuple(
        m.OffsetCommitResponseTopic(
            name=name,
            partitions=tuple(
                m.OffsetCommitResponsePartition(partition_index=index, error_code=ErrorCode(code))
                for index, code in partitions.items()
            ),
        )
        for name, partitions in codes.items()
    )
    body = written(m.OffsetCommitResponse(throttle_time=NO_TIME, topics=topics))
    wanted = {TopicPartition(name, index): code for name, ps in codes.items() for index, code in ps.items()}
    assert decode_offset_commit(memoryview(body)) == (wanted, 0)
