"""MM2's notes in Connect's offsets topic, byte for byte."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirror_ray.model.errors import CorruptRecordError
from mirror_ray.model.names import TopicPartition
from mirror_ray.records.source_offset import SourceOffset

NOTE = SourceOffset(connector="MirrorSourceConnector", cluster="A", partition=TopicPartition("t", 3), offset=41)
KEY = b'["MirrorSourceConnector",{"cluster":"A","partition":3,"topic":"t"}]'


def test_the_bytes() -> None:
    """As MM2 4.3 writes them: Connect finds a key by its bytes alone."""
    assert NOTE.encode() == (KEY, b'{"offset":41}')
    assert SourceOffset.decode(KEY, b'{"offset":41}') == NOTE


def test_no_note() -> None:
    """A tombstone, and a negative offset, stand for a beginning anew."""
    for value in (None, b'{"offset":-1}'):
        note = SourceOffset.decode(KEY, value)
        assert note is not None
        assert note.encode() == (KEY, None)


@pytest.mark.parametrize(
    "key",
    [
        b'["MirrorHeartbeatConnector",{"sourceClusterAlias":"A","targetClusterAlias":"B"}]',
        b'["MirrorCheckpointConnector",{"partition":0,"topic":"t","group":"g"}]',
        b'["file",{"filename":"x"}]',
        b'"x"',
        None,
    ],
)
def test_others_notes(key: bytes | None) -> None:
    """Other connectors of the same Connect cluster are passed over."""
    assert SourceOffset.decode(key, b'{"offset":0}') is None


def test_bad_bytes() -> None:
    """A key that is not JSON, and a value that is no offset, are named."""
    with pytest.raises(CorruptRecordError, match="is not JSON"):
        SourceOffset.decode(b"\xff[", b"{}")
    with pytest.raises(CorruptRecordError, match="t-3"):
        SourceOffset.decode(KEY, b'{"position":1}')


@given(st.text(min_size=1), st.text(min_size=1), st.integers(0, 2**31 - 1), st.integers(0, 2**63 - 1))
def test_round_trip(alias: str, topic: str, partition: int, offset: int) -> None:
    """Whatever the names are."""
    note = SourceOffset(connector="c", cluster=alias, partition=TopicPartition(topic, partition), offset=offset)
    try:
        key, value = note.encode()
    except UnicodeEncodeError:
        return
    assert SourceOffset.decode(key, value) == note
