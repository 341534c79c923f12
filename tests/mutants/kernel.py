"""Faults in the record kernel: in what it merges, divides, and calls the same."""

from __future__ import annotations

from tests.mutants.mutant import kernel_mutants_of

_repack = kernel_mutants_of("repack", "records/kernel")
_runs = kernel_mutants_of("runs", "records/batch_run")
_builder = kernel_mutants_of("builder", "records/kernel")
_records = kernel_mutants_of("records", "records/kernel", "records/kernel_hostile")
_legacy = kernel_mutants_of("legacy", "records/kernel", "records/kernel_hostile")
_compare = kernel_mutants_of("compare", "verification/batch_comparison")
_digest = kernel_mutants_of("digest", "verification/last_records")
_columns = kernel_mutants_of("columns", "transforms/columns")
_fields = kernel_mutants_of("fields", "transforms/columns", "verification/last_records")
_last_records = kernel_mutants_of("last_records", "verification/last_records")
_cleaned = kernel_mutants_of("cleaned", "verification/cleaned")

MUTANTS = (
    _repack("records before the position are taken", "«offset >= self.from_offset→true»"),
    _repack("what is to be left out is taken", "«!self.leave_out.iter()→!self.leave_out[..0].iter()»"),
    _repack("batches of two leader epochs are merged", "(full || «batch.leader_epoch() != leader_epoch→false»)"),
    _repack("more is merged than is allowed", "batch.payload_bytes() > «how.merge_bytes→2 * how.merge_bytes»"),
    _runs("a run goes over what is not in it", "let fits = «self.bytes.end == next.bytes.start→true»"),
    _runs("a run has several kinds", "&& «self.kind == next.kind→true»"),
    _runs("a run has several leader epochs", "&& «self.leader_epoch == next.leader_epoch→true»"),
    _runs("offsets of a run may come again", "&& «self.next_offset <= next.base_offset→true»"),
    _runs("a run is larger than was asked for", "&& «next.bytes.end - self.bytes.start <= most_bytes→true»"),
    _runs("checksums are not compared", "&& «header.crc_fits(&data[at..])→true»"),
    _runs("compacted batches are as small as others", "if «is_whole→true» { 0 }"),
    _runs("batches without records are taken", "    «header.count > 0→true»\n"),
    _runs("markers are taken", "&& «header.attributes & CONTROL_BIT == 0→true»"),
    _runs("large batches are taken", "largest.is_some_and(|&largest| «header.size_bytes <= largest→true»)"),
    _runs(
        "one batch is a run",
        "«                found.pop_if(|run| run.batches == 1);\n→»                found.push(next);",
    ),
    _builder("runs go on over a gap", "«first.wrapping_add(*count) == record.offset→*first <= record.offset»"),
    _builder("halves are no halves", "let middle = self.count / «2→3»;"),
    _builder("the first part leads behind the whole", "max_batch_bytes, «middle→source_next», leader_epoch, pieces)"),
    _builder("timestamps count from 0", "record.timestamp.wrapping_sub(«self.base_timestamp→0»)"),
    _records("LogAppendTime is forgotten", "timestamp: «append_time.unwrap_or(timestamp)→timestamp»"),
    _records("bytes behind the records are let pass", "    if «at == payload.len()→true» {"),
    _records("offsets may come again", "&& «previous < delta→previous <= delta»"),
    _legacy("inner offsets are absolute in magic 1", "Some(last) if wrapper.magic == «1→9»"),
    _legacy("the wrapper's time is forgotten", "«append_time.unwrap_or(message.timestamp)→message.timestamp»"),
    _compare("timestamps do not count", "&& («!timestamps→true» || mine.timestamp"),
    _compare("tails do not count", "«here[mine.from..mine.to] == there[theirs.from..theirs.to]→true»"),
    _compare("sections do not count", "|| «mine.section(&here) != theirs.section(&there)→false»"),
    _compare("other parts of batches are the same", "«(first, end) != theirs.deltas(&there)→false»"),
    _compare("records outside of the range are compared", "if «(start..end).contains(&record.offset)→true» {"),
    _digest("timestamps do not count for keys", "if «self.timestamps→false» {"),
    _digest("what follows a span in its batch is lost", "first.max(«next.min(span.end)→next»)"),
    _digest("records are taken again", "span.start.max(«self.reached→i64::MIN»)"),
    _columns("records before the position are transformed", "«offset >= from_offset→true»"),
    _columns("what is to be left out is transformed", "«!leave_out.iter()→!leave_out[..0].iter()»"),
    _columns("records that are the same are written anew", "if «same→false» {"),
    _columns("a changed timestamp is forgotten", "(row.timestamp, row.tail) = («timestamp→row.timestamp», place)"),
    _columns(
        "transformed batches of two leader epochs are merged", "(full || «batch.leader_epoch != leader_epoch→false»)"
    ),
    _columns(
        "more is merged of transformed batches than is allowed", "+ bytes > «how.merge_bytes→2 * how.merge_bytes»"
    ),
    _columns("batches of which nothing is left count", "if «!mine.is_empty()→true» {"),
    _columns("what follows a batch is taken for its own", "number «< batch.end→<= batch.end»"),
    _columns("more headers than are worth their memory are read", "if «self.header_count > RECORDS_LIMIT→false» {"),
    _fields("bytes behind the headers are let pass", "count >= 0 && «at == data.len()→true»"),
    _last_records("a tombstone is a record", "«fields.value.map(|_| digest)→Some(digest)»"),
    _last_records("the first record of a key counts", "digests[side] = «last→digests[side].or(last)»;"),
    _last_records("order does not count", "if «is_ordered→false» {"),
    _last_records("a sample's order has all records", "let is_ordered = «crc < how.ordered_below→true»;"),
    _cleaned("what was moved is cleaned", "if «!aligned.is_sorted()→false» {"),
    _cleaned("no offset need be missing", "if «one_sided.len() > other.gap(there)→false» ||"),
    _cleaned("no newer record is needed", "|| «!one_sided.iter().all(has_newer)→false» {"),
    _cleaned("an older record will do", "is_none_or(|&last| «last >= there.start→true»)"),
    _cleaned(
        "the first one of equal records is kept",
        "«indexes.get_mut(&row.digest)?.pop()?→indexes.get_mut(&row.digest)?.remove(0)»",
    ),
    _cleaned("records before the beginning count", "rows.partition_point(|row| «row.offset < start→false»)"),
)
