"""Faults in what is read of the source, and in the batches that are made of it."""

from __future__ import annotations

from tests.mutants.mutant import mutants_of

_select = mutants_of("records/read_committed", "records/read_committed")
_session = mutants_of("replication/fetch_session", "replication/fetch_session")
_fetcher = mutants_of("replication/fetcher", "replication/fetcher_answers", "replication/fetcher")
_interest = mutants_of("replication/fetch_interest", "replication/fetcher_answers", "replication/fetcher")
_batch = mutants_of("records/batch", "records/batch")
_repack = mutants_of("records/repack", "records/repack")
_columns = mutants_of("transforms/columns", "transforms/columns")
_chain = mutants_of("transforms/chain", "transforms/columns", "transforms/routes")
_ids = mutants_of("transforms/chain", "transforms/schema_ids")
_framing = mutants_of("transforms/framing", "transforms/schema_ids")
_record = mutants_of("transforms/record", "transforms/columns")
_transform = mutants_of("transforms/transform", "transforms/columns")
_log = mutants_of("replication/segment_log", "replication/segment_log")

MUTANTS = (
    _select("an abort marker does not end the abort", "if «control_type(batch) is ControlType.ABORT→False»:"),
    _select("a transaction is aborted from behind its first batch on", "coming[-1][1] <«=→» batch.last_offset:"),
    _select("what is not transactional is aborted", "batch.«is_transactional and batch.→»producer_id"),
    _select("aborts come in any order", "«sorted(aborted, key=lambda item: -item[1])→list(aborted)»"),
    _select(
        "markers are copied",
        "                self._aborting.discard(batch.producer_id)\n            return «False→True»",
    ),
    _session(
        "a newcomer is unchanged for the broker",
        "for key, position in self._changed.items()« if key not in self._forgotten→»}",
    ),
    _session("another position is not told", "if «self._wanted.get(key) != position→key not in self._wanted» or"),
    _session(
        "a lost session goes on", 'begin anew with everything that is wanted."""«\n        self._id = self._epoch = 0→»'
    ),
    _fetcher("an answer to an earlier question is taken", "« or not self._interest.is_asked_for(copy, fetched.key)→»:"),
    _fetcher("an answer for one that is not fetched is taken", "if copy is None or« not copy.state.fetches or→»"),
    _fetcher(
        "batches are processed at another place than they came for",
        "if not copy.state.fetches« or (copy.fetch_offset, copy.process_offset) != item.offsets→»:",
    ),
    _fetcher(
        "batches of a partition that went back are processed", "if not item.chunk_bytes« and item.copy.state.fetches→»:"
    ),
    _fetcher("a source that is another log is read on", "if «fetched.diverging_from >= 0→False»:"),
    _fetcher("the source ends at its high watermark", "«stable if stable >= 0 else →»fetched.high_watermark"),
    _fetcher("aborted transactions are not told of", "FetchedBatches(copy, batches, «fetched.aborted→[]»,"),
    _interest("the leader epoch is not sent", "FetchPosition(copy.fetch_offset«, copy.fetch_epoch→»)"),
    _fetcher("a position out of the log's bounds is not asked about", "«            copy.out_of_range()\n→»"),
    _fetcher("an error of a partition is not looked at", "            if «fetched.error_code→False»:\n"),
    _fetcher("a corrupt batch is passed over", "«        copy.block(error)\n→»"),
    _batch("checksums are not compared", "    if «actual != batch.crc→False»:"),
    _batch("checksums of old messages are not compared", "if «zlib.crc32(message) != crc→False»:"),
    _batch("a count that can't be is right", "not 0 <= batch.count« <= batch.last_offset_delta + 1→»"),
    _batch("a copy is transactional", "batch.attributes« & ~_SOURCE_BITS→» | (TRANS"),
    _batch("a batch cut off is whole", "        «if stop > end:\n            break\n        →»append(make"),
    _batch("a batch that begins before the position is passed on", "if batch.base_offset < position«→ - 1»:"),
    _batch("a batch with holes is passed on", "if «batch.last_offset_delta + 1 != batch.count→False»:"),
    _batch("the source's own timestamps are passed on", "if «batch.attributes & TIMESTAMP_TYPE_BIT→False»:"),
    _repack("records left out are copied", "records_from(batch, from_offset, «leave_out→()»)"),
    _repack(
        "records before the position are copied", "records_from(batch, «from_offset→batch.base_offset», leave_out)"
    ),
    _repack("a hole at the end of a batch is not passed", "«ends[-1] = max(ends[-1], batch.next_offset)→pass»"),
    _repack("a piece ends at its last record", "ends = [piece[-1].offset «+ 1 →»for"),
    _repack(
        "half of a batch that is too large is lost",
        "return _encode_split(records[:middle], codec, max_bytes) + _encode_split(records[middle«→ + 1 »:]",
    ),
    _repack("runs go over holes", "if records[-1].offset - records[0].offset + 1 «=→>»= len(records):"),
    _log("a segment goes over what others wrote", "«            and target == self.target + length\n→»"),
    _log("a segment goes over a hole of the source", "«source == self.source + length\n            and →»target"),
    _log(
        "a segment goes over records that were not told",
        "«            and number == (self.number + length) % SEQUENCE_MODULUS\n→»",
    ),
    _log(
        "where copying begins is not told", "«        self._put(source, pair.target_offset, 0, pair.next_sequence)\n→»"
    ),
    _log("runs of a batch are at one target offset", "«            target_offset += count\n→»"),
    _log("runs of a batch have one number", "«            sequence = (sequence + count) % SEQUENCE_MODULUS\n→»"),
    _log("full blocks are not told", "for segments in «self._full→()»]"),
    _log("a block's epoch is lost", "epoch=«assignment.epoch→0»,"),
    _columns(
        "what the kernel leaves to the reference is lost", "«self._native.replace(number, timestamp_ms, tail)→pass»"
    ),
    _columns("a field that is not read is that of another place", '"value" in reads else repeat(UNREAD[«1→0»])'),
    _columns("more headers than are worth their memory are parsed", "if «header_count > HEADERS_LIMIT→False»:"),
    _chain("records that can't be written go on as they were", "if «unwritten→False»:\n            numbers = [number"),
    _chain("records are kept wherever they go", 'if self.destination != ""« or self.routes→»:'),
    _ids("what waits for a schema id goes on untranslated", "    if «lacks→False»:\n        return ()"),
    _ids("failures behind a record that waits count", "if failure.record.offset «<→>=» waits.offset]"),
    _ids("what goes to another topic is kept, too", "if number «not →»in elsewhere]\n        return"),
    _framing("ids count though a header has another", "if end < 0« or field in in_headers→»:"),
    _framing("a record that fails is translated in part", "        if «fails→False»:\n            return tail"),
    _framing("what is plain is translated", 'if framing == «"plain"→"none"»:'),
    _record("an unread field counts as a change", "key = «fields[0] if key is UNREAD[0] else →»key"),
    _record("what can't be read is true", "«__bool__ = __len__ = →»__iter__"),
    _transform("a subclass reads what its parent does", '« or "__call__" in vars(kind)→»)'),
)
