"""Translates all committed offsets of a flow at once, without a running system.

The caller says how the maps are asked: ``LocalMaps`` reads the segments topics here, with Spark its executors do.
"""

from __future__ import annotations

import contextlib
import sys
from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Final, NamedTuple

from mirror_ray.config.settings import FlowSettings
from mirror_ray.groups.merged_groups import GroupReads, first_uncommitted, merge_translated
from mirror_ray.groups.merged_topics import GroupRemote
from mirror_ray.groups.translated_offset import TranslatedOffset
from mirror_ray.kafka.cluster import ClusterConnections
from mirror_ray.kafka.internal_topic_reader import InternalTopicReader
from mirror_ray.model.committed_offset import Commits, CommittedOffset
from mirror_ray.model.errors import CorruptRecordError, MirrorError
from mirror_ray.model.internal_topics import segments_topic
from mirror_ray.model.names import NO_TOPIC_ID, TopicPartition
from mirror_ray.offsets.flow_maps import FlowTranslator, RemotePartition, translate_many
from mirror_ray.offsets.log_bounds import log_bounds
from mirror_ray.offsets.map import OffsetMapStore
from mirror_ray.offsets.translation import MapAnswer, OffsetQuery, ReadableBounds, Translation, answer_from, within
from mirror_ray.offsets.translator import Translator, gap_reader, gap_transforms
from mirror_ray.records.segment_block import decode_block

_NO_ANSWER: Final = "the leader of its partition on the target does not answer: run this again"

#: Answers every query.
AnswerQueries = Callable[[Collection[OffsetQuery]], Awaitable[Mapping[OffsetQuery, MapAnswer]]]


class LocalMaps:
    """Reads both maps to their ends: the flow's own, and that of the flow back if it is asked."""

    def __init__(self, flow: FlowSettings, source: ClusterConnections, target: ClusterConnections) -> None:
        name = flow.name
        self._topics = {
            False: (target, segments_topic(name.source, name.route)),
            True: (source, segments_topic(name.target)),
        }

    async def __call__(self, queries: Collection[OffsetQuery]) -> Mapping[OffsetQuery, MapAnswer]:
        """Answer every query.

        Raises:
            OSError, MirrorError: A topic can't be read.
        """
        answers: dict[OffsetQuery, MapAnswer] = {}
        for back in {query.back for query in queries}:
            store = await _read_map(*self._topics[back])
            answers |= {query: answer_from(store, query) for query in queries if query.back == back}
        return answers


async def _read_map(cluster: ClusterConnections, topic: str) -> OffsetMapStore:
    """All that the topic holds: who is asked once need not forget."""
    store, reader, complete = OffsetMapStore(sys.maxsize, sys.maxsize), InternalTopicReader(cluster, topic), False
    while not complete:
        anew, records, complete = await reader.read()
        if anew:
            raise MirrorError(f"topic {topic} was created anew while it was read: run this again")
        for record in records:
            # A block that does not parse is passed over; the checkpoint actor reports it.
            if record.value is not None:
                with contextlib.suppress(CorruptRecordError):
                    store.apply(decode_block(record.key, record.value))
    return store


class _Row(NamedTuple):
    """A group's offset in one partition, and where that is."""

    group: str
    partition: TopicPartition
    committed: CommittedOffset
    remote: RemotePartition
    assumed: str | None = None


async def translate_all(
    flow: FlowSettings,
    source: ClusterConnections,
    target: ClusterConnections,
    commits: Commits,
    answer_queries: AnswerQueries,
    *,
    back: FlowSettings | None,
    reads: GroupReads,
    on_problem: Callable[[str], None],
) -> list[TranslatedOffset]:
    """Translate every committed offset of the topics that a flow copies, by group and partition.

    Behind them are those that count where several topics are merged, though nothing is committed there (``assumed``).
    ``back``: the flow back, where its transforms are known.

    Guarantees: the result is that of the checkpoint actors, or exact where theirs can't be. Gaps of the maps are read
    on the source, however long that takes.

    Raises:
        OSError, MirrorError: A map can't be read.
    """
    answers: dict[OffsetQuery, MapAnswer] = {}
    committed = flow.fetch.isolation_level == "read_committed"
    own_gaps = gap_reader(source, gap_transforms(flow, source, target, on_problem), read_committed=committed)
    back_gaps = gap_reader(target, gap_transforms(back, target, source, on_problem), read_committed=committed)
    translators = Translator(answers.__getitem__, own_gaps), Translator(answers.__getitem__, back_gaps)
    maps = FlowTranslator(flow, source, target, translators)
    await maps.prepare()
    rows = [
        _Row(group, partition, offset, remote)
        for group, offsets in sorted(commits.items())
        for partition, offset in sorted(offsets.items())
        if (remote := maps.remote_partition(partition)) is not None
    ]
    rows += await _uncommitted(maps, source, rows, reads)
    await maps.refresh({row.partition for row in rows})
    answers |= await answer_queries({query for row in rows for query in row.remote.queries(row.committed.offset)})
    translations = await translate_many([(row.remote, row.committed.offset) for row in rows], None)
    logs = await log_bounds(target, {row.remote.remote for row in rows})
    found = [
        TranslatedOffset(
            group=row.group,
            origin=row.partition,
            origin_offset=row.committed.offset,
            destination=row.remote.remote,
            translation=_bounded(source, row, translation, logs.get(row.remote.remote)),
            metadata=row.committed.metadata,
            back=row.remote.back,
            assumed=row.assumed,
        )
        for row, translation in zip(rows, translations, strict=True)
    ]
    own = [offset for offset in found if not offset.back]
    merged = iter(await merge_translated(own, logs, source, flow.fetch.isolation_level))
    return [offset if offset.back else next(merged) for offset in found]


async def _uncommitted(
    maps: FlowTranslator, source: ClusterConnections, rows: Collection[_Row], reads: GroupReads
) -> list[_Row]:
    """Where groups may yet have to read merged topics in which they have committed nothing."""
    committed_in: dict[GroupRemote, set[str]] = defaultdict(set)
    for row in rows:
        if row.remote.merges:
            committed_in[row.group, row.remote.remote].add(row.partition.topic)
    uncommitted = await first_uncommitted(maps, source, committed_in, reads)
    return [
        _Row(topic.group, topic.source, CommittedOffset(first), remote, topic.why)
        for topic, first in uncommitted.items()
        if (remote := maps.remote_partition(topic.source)) is not None
    ]


def _bounded(
    source: ClusterConnections, row: _Row, translation: Translation, log: ReadableBounds | None
) -> Translation:
    outdated = row.remote.outdated(row.committed.offset) or of_another(source, row.partition, row.committed)
    if outdated is not None:
        return Translation(offset=None, reason=outdated)
    if translation.offset is None:
        return translation
    return within(translation, log) if log is not None else Translation(offset=None, reason=_NO_ANSWER)


def of_another(source: ClusterConnections, partition: TopicPartition, committed: CommittedOffset) -> str | None:
    """Why an offset of the past is not one of the topic that is there now; None: it is, as far as is known."""
    found = source.metadata.topics.get(partition.topic)
    if found is None or found.error_code or NO_TOPIC_ID in (found.topic_id, committed.topic_id):
        return None
    if found.topic_id == committed.topic_id:
        return None
    name = f"topic {partition.topic} on cluster {source.settings.alias}"
    return f"{name} was created anew since the group had committed {committed.offset} there"
