"""What the history of commits costs: a checkpoint actor's share of a core, and bytes in the topic.

::

    python -m mirror_ray.lab.benchmarks.history [--groups 5000] [--partitions 50] [--changed 0.05] [--rounds 30]

No broker is needed: what is measured is our own work for it, and the size of the batches that it writes. Between two
rounds, two seconds apart, a share of the groups commits new offsets for all their partitions.
"""

from __future__ import annotations

import argparse
import random
import time

from mirror_ray.groups.commit_history import CommitHistory, CommitRecorder
from mirror_ray.groups.offset_state import GroupOffsetState
from mirror_ray.kafka.internal_topic_writer import KeyedRecord, batches
from mirror_ray.model.committed_offset import CommittedOffset
from mirror_ray.model.names import TopicPartition
from mirror_ray.records.commit_record import SNAPSHOT_MS, CommitRecord

START_MS = 1_700_000_000_000
ROUND_MS = 2000


class Watched:
    """Groups that commit, and what is written of it."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.now_ms = START_MS
        self.recorder, self.book = CommitRecorder(bytes(16)), GroupOffsetState()
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
        """These go on in all their partitions."""
        for group in groups:
            mine = self.offsets[group]
            for partition in mine:
                mine[partition] += self.random.randrange(1, 2000)
            self.book.committed(group, {p: CommittedOffset(offset, 3) for p, offset in mine.items()})

    def look(self) -> tuple[float, int]:
        """CPU seconds for one look at the book, and bytes written for it."""
        self.now_ms += ROUND_MS
        began_s = time.process_time()
        records = self.recorder.look(self.book, self.now_ms)
        written = [KeyedRecord(*record.encode()) for record in records]
        size = sum(len(batch) for batch in batches(written, self.now_ms))
        took_s = time.process_time() - began_s
        self.values += [each.value or b"" for each in written]
        return took_s, size


def main() -> None:
    """All figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--groups", type=int, default=5000)
    parser.add_argument("--partitions", type=int, default=50, help="of each group")
    parser.add_argument("--changed", type=float, default=0.05, help="share of the groups that commit between rounds")
    parser.add_argument("--rounds", type=int, default=30)
    options = parser.parse_args()
    watched = Watched(options)
    names = list(watched.offsets)
    watched.commit(names)
    total = options.groups * options.partitions
    print(f"{total:,} offsets, {options.changed:.0%} of them change within {ROUND_MS / 1000:g} s:")
    snapshot_s, snapshot_bytes = watched.look()
    print(f"  snapshot, every hour      {snapshot_s:8.2f} s of CPU {snapshot_bytes / 1e6:10.2f} MB")
    spent_s, size = 0.0, 0
    for _ in range(options.rounds):
        watched.commit(watched.random.sample(names, round(options.changed * len(names))))
        took_s, written = watched.look()
        spent_s, size = spent_s + took_s, size + written
    per_round_s, per_round = spent_s / options.rounds, size / options.rounds
    rounds = SNAPSHOT_MS / ROUND_MS
    print(f"  round                     {per_round_s:8.3f} s of CPU {per_round / 1e3:10.1f} kB")
    share = (per_round_s * rounds + snapshot_s) / (SNAPSHOT_MS / 1000)
    print(f"  together                  {share:8.2%} of a core {(per_round * rounds + snapshot_bytes) / 1e6:9.1f} MB/h")
    began_s = time.process_time()
    history = CommitHistory(watched.now_ms)
    for value in watched.values:
        history.take(CommitRecord.decode(value))
    found = history.commits()
    took_s = time.process_time() - began_s
    rows = total + options.rounds * round(total * options.changed)
    print(f"  reading                   {rows / took_s:8,.0f} offsets a second")
    if not isinstance(found, dict) or any(
        {p: each.offset for p, each in found[group].items()} != offsets for group, offsets in watched.offsets.items()
    ):
        raise SystemExit("what was read is not what was written")


if __name__ == "__main__":
    main()
