"""Faults in which batches are merged, and in what becomes of what they were."""

from __future__ import annotations

from tests.mutants.mutant import mutants_of

_source = mutants_of("replication/partition_source", "replication/merging")
_rules = mutants_of("replication/merge_rules", "replication/merge_rules", "replication/merging")
_outgoing = mutants_of("replication/outgoing_batch", "replication/merging")
_partition = mutants_of("replication/partition", "replication/merging")
_transforms = mutants_of("replication/partition_transforms", "replication/merged_transforms")
_transformed_source = mutants_of("replication/partition_source", "replication/merged_transforms")
_transformed = mutants_of("replication/outgoing_batch", "replication/merged_transforms")
_statistics = mutants_of("replication/statistics", "replication/merging")
_kernel = mutants_of("records/kernel", "replication/merging", "records/repack")

MUTANTS = (
    _source("merging can't be turned off", "return «self.merge→True» and self.position.known and position >="),
    _source("a run with aborted records is merged", "                «select.copies_all→True»\n"),
    _source("a run is merged that reaches before the position", "and «item.base_offset >= self.process_offset→True»\n"),
    _source("a run is merged where nothing is to be merged", "and «self._merges_here→True»\n                and not"),
    _source("a run with records to skip is merged", "and «not self.assignment.skip→True»\n"),
    _source(
        "batches are merged while the position is searched for",
        "self.merge and «self.position.known→True» and position >=",
    ),
    _source("what was refused is merged again", "and «position >= self._unmerged_to→True» and"),
    _source("what is to go record by record is merged", "and «position >= self._singly_to→True»\n"),
    _source(
        "records to skip are merged",
        "and not «(assignment.skip and reaching_into(batch, position, assignment.skip))→()»",
    ),
    _source(
        "a batch overtakes those that wait to be merged",
        "        else:\n«            self._merge(merging)\n→»            if self.position.known:",
    ),
    _source(
        "what waits is lost where a damaged batch follows",
        "            «finally→except CorruptBatchError:\n                raise\n            else»:\n"
        "                self._merge(merging)",
    ),
    _source(
        "a batch that stops the copy is passed over",
        "        for number, batch in enumerate(batches):\n«            self.process_offset = position\n→»",
    ),
    _source(
        "batches after the first are taken from its position on",
        "(batches[number:]) from None\n            «position = batch.next_offset→pass»",
    ),
    _source(
        "a gap behind merged batches is not passed",
        "«        self._skip_gap(last)\n→»        self.process_offset = last.next_offset",
    ),
    _source(
        "a gap among merged batches moves the position over them",
        "            if «not merging.skip_gap(batch)→True»:\n                self._skip_gap(batch)",
    ),
    _rules("the position of merged batches is that of the last", "        if «not self._batches→True»:\n"),
    _rules("batches that wait are merged twice", "«        self._batches, self._last = [], None\n→»"),
    _rules("large batches are unpacked", "return «size_bytes <= LARGEST_SMALL_BYTES[codec]→True»"),
    _rules("runs hold what is larger than the target takes", "[min(size, «max_message_bytes→size») for size in"),
    _rules(
        "runs hold small batches alone of those that are compressed anyway", "if «compress_with is not None→False»:\n"
    ),
    _rules("batches that are no longer whole are passed over", "return «reason in _REPACKED→True»"),
    _rules("merged batches get another codec", "(«sizes_bytes[0] or →»sum(size > 0"),
    _rules("the smallest part decides on the codec", "sizes_bytes.index(«max→min»(sizes_bytes))"),
    _outgoing(
        "records before the position are merged",
        "max_batch_bytes=max_bytes, from_offset=«position→0»\n        )\n    elif",
    ),
    _outgoing(
        "merged batches are larger than the target takes", "max_batch_bytes=«max_bytes→1 << 30», from_offset=position"
    ),
    _outgoing("a merged batch is taken for the source's own", "return _outgoing(repacked«, merged=True→»)"),
    _partition("a refused merged batch goes record by record", "if «outgoing.merged→False»:"),
    _partition("a refused merged batch is merged again", "self._unmerged_to = «outgoing.source_next→0»"),
    _statistics("all of a merged batch is as old as its newest record", "in «done.ages→[(newest_ms, count)]»:"),
    _rules("what transforms change is merged only if it is small", "if «transformed or →»(codec"),
    _transformed_source(
        "records that transforms change are merged unchanged",
        "merged = merged_batches(batches, position, self.assignment, «self.transforms→None»)",
    ),
    _transformed_source(
        "a record that fails stops all that was to be merged with it",
        "RecordTooLargeError«, ReplicationFault, DeadLettersWaitError→», SchemaIdsWaitError)",
    ),
    _transformed_source("what transforms left nothing of goes through them again", "if «merged is None→not merged»:"),
    _transformed_source(
        "dead letters behind what was not looked at are forgotten",
        "single_batches(following) if «waiting.batches[-1] is batch→True» else ()",
    ),
    _transformed_source(
        "dead letters are written one by one", "raise DeadLettersWaitError(«batches[number:]→batches[number:][:1]»)"
    ),
    _transformed("records before the position are transformed and merged", "transforms.take(batches, «position→0»)"),
    _transformed(
        "what transforms made is larger than the target takes",
        "merge_bytes=room_bytes, max_batch_bytes=«max_bytes→1 << 30»)",
    ),
    _transformed(
        "more is merged than fits into a batch", "records.pack(kept, codec=codec, merge_bytes=«room_bytes→1 << 30»"
    ),
    _transformed(
        "failures in merged batches are not counted",
        "«        transforms.left_out(failures)\n→»    return _outgoing(repacked, merged=True)",
    ),
    _transforms("a later failure hides behind one that was written", "and «failures[-1]→failures[0]».record.offset"),
    _transforms(
        "failures are counted before they are left out",
        "raise DeadLettersWaitError(list(single_batches(batches)))\n«→        self.left_out(failures)\n»",
    ),
    _kernel("the position goes on at the last record", "next_source_offset=«following→last»,"),
)
