"""What the commit history costs: a checkpoint actor's share of a core, and bytes in the topic.

::

    make bench-history
    .venv/bin/python -m mirror_ray.lab.benchmarks.history [--groups 5000] [--partitions 50] [--changed 0.05]
        [--rounds 30]

No broker is needed: the figures are mirror-ray's own work, and the size of the batches that it writes. Between two
rounds, two seconds apart, a share of the groups commits new offsets for all their partitions.
"""

from __future__ import annotations

import argparse
import random
import time

from mirror_ray.groups.commit_history import CommitHistory, CommitRecorder
from mirror_ray.groups.offset_state import GroupOffsetState
from mirror_ray.kafka.internal_topic_writer import KeyedRecord, batches
from mirror_ray.lab.benchmarks.harness import GROUP_OPTIONS, parse_arguments
from mirror_ray.model.committed_offset import CommittedOffset
from mirror_ray.model.names import TopicPartition
from mirror_ray.records.commit_record import SNAPSHOT_MS, CommitRecord

START_MS = 1_700_000_000_000
ROUND_MS = 2000


class RecordedGroups:
    """Groups that commit, and the commit history that is written."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.now_ms = START_MS
        self.recorder, self.state = CommitRecorder(bytes(16)), GroupOffsetState()
        self.random = random.Random(1)
        self.values: list[bytes] = []
        self.offsets = {
            f"payments-service-{group:05}": {
                TopicPartition(f"orders.region-{group % 20}", number): self.random.randrange(10**9)
                for number in range(options.partitions)
            }
            for group in range(options.groups)
        }

    def commit(self, groups: list[str]) -> None:
        """Advance all partitions of these groups."""
        for group in groups:
            offsets = self.offsets[group]
            for partition in offsets:
                offsets[partition] += self.random.randrange(1, 2000)
            self.state.committed(group, {at: CommittedOffset(offset, 3) for at, offset in offsets.items()})

    def record(self) -> tuple[float, int]:
        """Record one round; returns CPU seconds, and bytes written."""
        self.now_ms += ROUND_MS
        began_s = time.process_time()
        records = self.recorder.record(self.state, self.now_ms)
        written = [KeyedRecord(*record.encode()) for record in records]
        size = sum(len(batch) for batch in batches(written, self.now_ms))
        took_s = time.process_time() - began_s
        self.values += [record.value or b"" for record in written]
        return took_s, size


def main() -> None:
    options = parse_arguments(__doc__, **GROUP_OPTIONS, rounds=(30, "over which the mean is taken"))
    recorded = RecordedGroups(options)
    names = list(recorded.offsets)
    recorded.commit(names)
    total = options.groups * options.partitions
    print(f"{total:,} offsets, {options.changed:.0%} of them change within {ROUND_MS / 1000:g} s:")
    snapshot_s, snapshot_bytes = recorded.record()
    print(f"  snapshot, every hour      {snapshot_s:8.2f} s of CPU {snapshot_bytes / 1e6:10.2f} MB")
    spent_s, size = 0.0, 0
    for _ in range(options.rounds):
        recorded.commit(recorded.random.sample(names, round(options.changed * len(names))))
        took_s, written = recorded.record()
        spent_s, size = spent_s + took_s, size + written
    per_round_s, per_round = spent_s / options.rounds, size / options.rounds
    rounds = SNAPSHOT_MS / ROUND_MS
    print(f"  round                     {per_round_s:8.3f} s of CPU {per_round / 1e3:10.1f} kB")
    share = (per_round_s * rounds + snapshot_s) / (SNAPSHOT_MS / 1000)
    print(f"  together                  {share:8.2%} of a core {(per_round * rounds + snapshot_bytes) / 1e6:9.1f} MB/h")
    began_s = time.process_time()
    history = CommitHistory(recorded.now_ms)
    for value in recorded.values:
        history.take(CommitRecord.decode(value))
    found = history.commits()
    took_s = time.process_time() - began_s
    rows = total + options.rounds * round(total * options.changed)
    print(f"  reading                   {rows / took_s:8,.0f} offsets a second")
    if not isinstance(found, dict) or any(
        {at: committed.offset for at, committed in found[group].items()} != offsets
        for group, offsets in recorded.offsets.items()
    ):
        raise SystemExit("what was read is not what was written")


if __name__ == "__main__":
    main()
