"""What transforms cost one core: records of a batch decoded, changed or left out, and encoded with the source's codec.

::

    make bench-transform
    .venv/bin/python -m mirror_ray.lab.benchmarks.transform [--seconds 1] [--rounds 5]

No broker and no network: from the fetched bytes to those that are produced, checksums included. ``passed on`` is a
batch without transforms; ``repacked`` is a batch that can't be passed on as it is (decoded and encoded, nothing
changed). Records a second of processor time of this process, by the record kernel and by its reference in Python, in
turns; of several rounds the best one counts. ``merged`` is by the kernel, where fifty batches wait together and become
one: of small batches only. The key filter keeps a third of the records; once keys repeat, and once each key is new.
"""

from __future__ import annotations

import gc
import json
import random
import struct
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from functools import partial
from itertools import cycle

from mirror_ray.lab.benchmarks.harness import parse_arguments
from mirror_ray.model.names import TopicPartition
from mirror_ray.records.batch import Codec, RecordBatch, iter_batches, rewrite, verify
from mirror_ray.records.decode import DecodedRecord, record_tail
from mirror_ray.records.repack import encode
from mirror_ray.replication.outgoing_batch import merged_batches, outgoing_batches
from mirror_ray.replication.partition_transforms import PartitionTransforms
from mirror_ray.transforms import FilterByKey, InsertHeader, MaskJsonFields, Transform
from mirror_ray.transforms.chain import NamedTransform, TransformChain
from tests.support.factories import assignment
from tests.support.kernels import without_kernel

#: As a replicator sets it.
COLLECT_AFTER_OBJECTS = 50_000
SOURCE = TopicPartition("orders", 0)
ASSIGNMENT = assignment(*SOURCE, max_message_bytes=1 << 30)
WORDS = ("order", "customer", "street", "delayed", "parcel", "Monday", "invoice", "open", "article", "storage")
#: Records of a batch, bytes of a value, codec.
KINDS: tuple[tuple[int, int, Codec], ...] = (
    (500, 1000, "zstd"),
    (500, 1000, "lz4"),
    (10, 100, "none"),
    (10, 100, "zstd"),
)
#: Batches with fewer are merged, so many at a time.
SMALL_RECORDS, MERGED_BATCHES = 100, 50
#: More keys than a filter caches results for.
NEW_KEYS = 20_000
NEW = "... of new keys"
STEPS: dict[str, Transform | None] = {
    "repacked": None,
    "key filter": FilterByKey("key-.*[0369]"),
    "header insert": InsertHeader("site", "eu"),
    "JSON field mask": MaskJsonFields("customer.email"),
}


def value(number: int, size: int, dice: random.Random) -> bytes:
    """A JSON document that compresses about as real ones do."""
    document = {"id": number, "customer": {"email": f"u{dice.randint(0, 9999)}@example.org"}, "text": ""}
    while len(json.dumps(document)) < size:
        document["text"] = f"{document['text']} {dice.choice(WORDS)} {dice.randint(0, 99999)}"
    return json.dumps(document).encode()


def made(records: int, size: int, codec: Codec) -> Iterator[bytes]:
    """Batches as a producer sends them, with different keys and the same values."""
    dice = random.Random(1)
    values = [value(number, size, dice) for number in range(records)]
    for first in range(0, NEW_KEYS, records):
        tails = (record_tail(b"key-%d" % (first + number), content) for number, content in enumerate(values))
        yield bytes(
            encode([DecodedRecord(number, 1000 + number, tail) for number, tail in enumerate(tails)], codec).view
        )


def fetched(data: bytes) -> RecordBatch:
    """The batch in a buffer of its own, checked."""
    batch = iter_batches(memoryview(bytearray(data)))[0]
    verify(batch)
    return batch


def transform(data: bytes, transforms: PartitionTransforms | None, *, repacked: bool = False) -> None:
    """Transform a batch, or pass it on; if it is to be ``repacked``, it is decoded and encoded without transforms."""
    batch = fetched(data)
    if repacked:
        batch = batch._replace(last_offset_delta=batch.last_offset_delta + 1)
    for outgoing in outgoing_batches(batch, 0, ASSIGNMENT, transforms, singly=False):
        rewrite(outgoing.batch, 1, 0, 0)


def transform_next(batches: Iterator[bytes], transforms: PartitionTransforms | None) -> None:
    transform(next(batches), transforms)


def transform_merged(waiting: Sequence[bytes], transforms: PartitionTransforms | None) -> None:
    """Transform batches that wait together, or merge them alone."""
    for outgoing in merged_batches([fetched(data) for data in waiting], 0, ASSIGNMENT, transforms):
        rewrite(outgoing.batch, 1, 0, 0)


def following(batches: Sequence[bytes], records: int) -> list[bytes]:
    """The first of the batches, one behind the other on the source."""
    return [struct.pack(">q", number * records) + data[8:] for number, data in enumerate(batches[:MERGED_BATCHES])]


def best_rates(ways: Sequence[tuple[Callable[[], None], int, bool]], seconds: float, rounds: int) -> list[float]:
    """Source records a second of processor time in the best round, of actions with so many records, with the kernel."""
    best = [0.0] * len(ways)
    for _ in range(rounds):
        for number, (action, records, native) in enumerate(ways):
            with nullcontext() if native else without_kernel():
                action()
                count, begun = 0, time.process_time()
                while time.process_time() - begun < seconds / rounds:
                    action()
                    count += 1
                best[number] = max(best[number], count * records / (time.process_time() - begun))
    return best


def main() -> None:
    options = parse_arguments(__doc__, seconds=(1.0, "for each figure"), rounds=(5, "of which the best one counts"))
    gc.set_threshold(COLLECT_AFTER_OBJECTS)
    for records, size, codec in KINDS:
        batches = list(made(records, size, codec))
        data = batches[0]
        print(f"batches of {records} records of {size} bytes, {codec}, {len(data):,} bytes:", flush=True)
        small = records < SMALL_RECORDS
        waiting = following(batches, records) if small else []
        print(f"  {'records/s':<18}{'kernel':>12}{'Python':>12}{'merged' if small else '':>12}", flush=True)
        actions: dict[str, tuple[Callable[[], None], Callable[[], None]]] = {
            "passed on": (partial(transform, data, None), partial(transform_merged, waiting, None))
        }
        for name, step in STEPS.items():
            chain = None if step is None else TransformChain((NamedTransform(name, step),), name)
            transforms = None if chain is None else PartitionTransforms(chain, SOURCE)
            together = partial(transform_merged, waiting, transforms)
            actions[name] = (partial(transform, data, transforms, repacked=step is None), together)
            if name == "key filter":
                actions[NEW] = (partial(transform_next, cycle(batches), transforms), together)
        for name, (alone, merging) in actions.items():
            ways = [(alone, records, True), (alone, records, False)]
            if small and name != NEW:
                ways.append((merging, records * MERGED_BATCHES, True))
            rates = best_rates(ways, options.seconds, options.rounds)
            print(f"  {name:<18}{''.join(f'{rate:>12,.0f}' for rate in rates)}", flush=True)


if __name__ == "__main__":
    main()
