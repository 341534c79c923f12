"""Faults in a partition's states and position, and in how the position is found again."""

from __future__ import annotations

from tests.mutants.mutant import mutants_of

_MODEL = "replication/partition_model"
_partition = mutants_of("replication/partition", "replication/partition", "replication/lifecycle", _MODEL)
_states = mutants_of("replication/partition_states", "replication/partition_states", "replication/partition")
_data = mutants_of("replication/partition_data", "replication/partition", "replication/lifecycle", _MODEL)
_source = mutants_of("replication/partition_source", "replication/partition", _MODEL)
_waits = mutants_of("replication/partition_waits", "replication/partition")
_position = mutants_of("replication/position", "replication/position", "replication/partition", _MODEL)
_realignment = mutants_of("replication/realignment", "replication/realignment", "replication/position", _MODEL)
_log = mutants_of("replication/target_log", "replication/target_log", "replication/realignment")
_walk = mutants_of(
    "replication/realignment", "replication/realignment", "replication/position", "replication/transformed_partition"
)
_translated_walk = mutants_of("replication/realignment", "replication/schema_ids_partition")
_queries = mutants_of("replication/log_end_queries", "replication/log_end_queries")
_pipeline = mutants_of("replication/pipeline", "replication/partition", _MODEL)
_anchor = mutants_of("model/offset_pair", "model/anchor")

MUTANTS = (
    _partition(
        "what the old connection's broker knew of the producer is believed by the next one",
        "«        self.pipeline.deep = False\n→»",
    ),
    _partition(
        "an answer to a partition that is released without its position counts",
        "«        if state is CopyState.LEAVING:\n            return\n→»",
    ),
    _states(
        "what is behind a refusal counts once the partition has stopped",
        "(_E.FAILED, (_S.REFUSED, _S.STOPPED_REFUSED), _S.«STOPPED_REFUSED→STOPPED», _RESTART)",
    ),
    _states(
        "what is behind a refusal counts while the target's end is read",
        "(_E.INTERRUPTED, (_S.REFUSED, _S.STOPPED_REFUSED), _S.«REFUSED→ESTABLISHING», _RESTART)",
    ),
    _states("a restart keeps what is buffered", "_RESTART = (_I.«DROP, _I.DETACH→DETACH»,"),
    _partition("where a batch was appended is not compared", "if «base_offset != outgoing.target_offset→False»:"),
    _partition("what is behind a refusal counts", "        if «state.refused→False»:\n            # Where"),
    _partition("acks=1 moves the pair", "        if «committed→True»:\n            self._commit()"),
    _partition(
        "the end is read while answers are awaited", "not («self.pipeline.in_flight or →»self.pipeline.filling)"
    ),
    _partition(
        "one record more than was acknowledged needs no look", "return end > self.acknowledged.target_offset «→+ 1 »or"
    ),
    _partition("the last batch behind a refusal is not looked at", "doubtful =« self.state.refused or→»"),
    _states(
        "a refusal is never over",
        "(_E.TARGET_END_READ, «_READS_TARGET→(_S.ESTABLISHING, _S.STOPPED)», _S.UNPLACED, (_I.PLACE,))",
    ),
    _data("the source's leader epoch is lost where it begins", "self.fetch_epoch = «pair.source_epoch→-1»"),
    _source(
        "the source's leader epoch is not read on",
        "«            self.fetch_epoch = max(self.fetch_epoch, batches[-1].partition_leader_epoch)\n→»",
    ),
    _waits(
        "the source's leader epoch is lost with a wait", "«(self.pipeline.newest or self.acknowledged).source_epoch→-1»"
    ),
    _source("no checksum is compared", "«                verify(batch)\n→»"),
    _source("a batch is taken from its first record on", "self._take(batch, «self.process_offset→batch.base_offset»)"),
    _source(
        "a hole moves a place that is not known",
        "        «elif self.position.known→else»:\n            self.position.skip_gap",
    ),
    _source(
        "the source's end is asked for with batches under way",
        "return self.state is CopyState.ASKING_SOURCE« and self.settled→»",
    ),
    _source("the source has ended though more is stable", "« and self.process_offset >= stable_end→»:"),
    _source(
        "records that are to be copied after all are not fetched",
        "passed_over = «self.acknowledged.source_offset < self.process_offset→False»",
    ),
    _source(
        "a source that is another log is read on",
        "if «self.settled and self.fetch_offset == self.acknowledged.source_offset→False»:",
    ),
    _pipeline(
        "batches follow each other before one was acknowledged",
        "self.ready[0].behind_gap« and (self.deep or not self.in_flight)→»",
    ),
    _partition("a partition sends while its end is read", "return self.pipeline.sendable« and self.state.sends→»"),
    _partition(
        "at least once, batches follow each other", "self.pipeline.deep = «self.assignment.producer_id >= 0→True»"
    ),
    _partition(
        "a refused batch is not remembered",
        "        «self.pipeline.remember()\n        →»outgoing = self.pipeline.answered()\n",
    ),
    _partition("what is behind a refusal is blamed on its records", "if record_error is None« or not first_refused→»:"),
    _partition("a refused record is not looked for", "«        self._singly_to = outgoing.source_next\n→»"),
    _partition(
        "what was lost is not remembered",
        "        self.pipeline.«remember()\n        self.pipeline.→»lose()\n"
        "        self._on(StateEvent.CONNECTION_LOST)",
    ),
    _data(
        "what is buffered outlives a restart",
        "                self.pipeline.remember()\n«                self.pipeline.drop()\n→»",
    ),
    _source("a backfill goes on behind its end", "return self.fetch_offset >«=→» self.assignment.end_offset"),
    _source(
        "a batch's sequence is its predecessor's",
        "newest.target_offset + newest.count, newest.«next_sequence→sequence»",
    ),
    _partition(
        "a restart begins at the source's end",
        "        self.pipeline.forget()\n«        self._fetch_from(self.acknowledged)\n→»",
    ),
    _position(
        "the state's word that nothing is under way is taken for granted",
        "self._complete = «self.assignment.settled→True»",
    ),
    _position("what is unanswered counts as not sent", "nothing=self._complete« and not unanswered→»"),
    _position("who copied before counts as complete", "nothing=«self._complete and →»not unanswered"),
    _position("the target's leader epoch is lost", "«        self._target_epoch = log.epoch\n→»"),
    _position(
        "the target's leader epoch is lost at its end", "self._found(«replace(anchor, target_epoch=log.epoch)→anchor»)"
    ),
    _position("a position inside a batch gets the epoch of its end", "epoch« if reached == position else -1→»"),
    _position("a source that ends before the position is read on", "if «position > end→False»:"),
    _position(
        "a source that begins behind the position is read on",
        "        if «self._realignment is None→False»:\n            source = self",
    ),
    _position("contents are compared again and again", "elif «self.wants_contents→False»:"),
    _position("a shared topic's sequence is lost", "own = «self.exclusive and→True or»"),
    _position("a hole puts the pair back", "source_offset=«max(next_offset, now.source_offset)→next_offset»"),
    _position("a topic that others write is taken for exclusive", "return «not self.assignment.shared and →»self"),
    _position("a remembered place is the pair's source position", "source, epoch = «remembered or →»("),
    _realignment("fewer source offsets than records is right", "        if «position < copied_to→False»:"),
    _realignment("more contents than records is right", "if not 0 < len(by.records) «<= records →»or guessed:"),
    _realignment("a cleaned topic that others write is guessed at", "<= records« or guessed→»:"),
    _realignment("what was removed need not be looked for", "«        self.walk.late = True\n→»"),
    _realignment("a target that was cleaned is taken for whole", "sparse = «len(by.records) < records→False»"),
    _realignment("records left out are counted by number", "Walk(records, tail, «skip→()», transforms"),
    _realignment("records left out are looked for", "Match(by, sparse, «skip→()», transforms=transforms)"),
    _log("a target that ends before the pair is right", "    if «end < start→False»:"),
    _log("at least once, a shared topic is all ours", "return 0 if «assignment.shared→False»"),
    _log("somebody else's last batch is ours", "if «log.tail.producer_id != assignment.producer_id→False»:"),
    _log(
        "another batch at the same end is right",
        "assignment.producer_id and «_next_sequence(log.tail) != anchor.next_sequence→False»",
    ),
    _log("an emptied topic to which nothing was sent is ours", "    if «sent.nothing→False»:\n"),
    _log("an emptied topic is ours", "    if «sent.up_to_end→True»:"),
    _log("more sequences than offsets is right", "    if surplus «=→>»= 0:"),
    _log("fewer sequences than offsets is right", "    if surplus «=→<»= 0:"),
    _log(
        "a stranger in a topic of ours is overlooked", "if «log.foreign is not None and not assignment.shared→False»:"
    ),
    _log(
        "accepted strangers are looked for no more",
        "others = assignment.shared« or assignment.foreign_to > anchor.target_offset→»",
    ),
    _log("where the broker does not know us the newest batch decides", "elif «not sent.nothing→False» and"),
    _log("a log that lost its end is the same", "elif «log.agrees_to < anchor.target_offset→False»:"),
    _log("records of ours that are gone are not missed", "    if «ours < 0→False»:"),
    _log(
        "holes behind the newest batch of ours are nothing", "return «log.complete_from <= log.tail.next_offset→True»"
    ),
    _log("a hole just behind the newest batch is nothing", "return log.complete_from <= log.tail.next_offset«→ + 1»"),
    _log("nothing behind a cut is nothing at all", "<= anchor.target_offset« <= log.agrees_to→»"),
    _log("a removed last batch is compared", " or «_next_sequence(log.tail) == reached.next_sequence→True»:"),
    _log("a cleaned batch has fewer sequences", "(tail.base_sequence + tail.«last_offset_delta + 1→count»)"),
    _log(
        "sequences do not wrap",
        "forward = «(following - anchor.next_sequence) % SEQUENCE_MODULUS→following - anchor.next_sequence»",
    ),
    _log(
        "what is behind an emptied log is not asked for",
        "return «log.end > anchor.target_offset and log.tail is None→False»",
    ),
    _log("a log is scanned behind its cut", "return «min(anchor.target_offset, log.agrees_to)→anchor.target_offset»"),
    _translated_walk(
        "dead letters behind a part of a batch are lost",
        "self.transforms is not None and «self.transforms.sends_parts→False»",
    ),
    _translated_walk("a place before what waits is not found", "if self.records > «len(waiting.before)→0»:"),
    _walk(
        "copying goes on behind the batch",
        "return «last.offset + 1 if self.records < len(records) or in_parts else →»batch.next_offset",
    ),
    _walk(
        "the last record is not compared",
        "return «content_of(last, timed=timed) == content_of(record, timed=timed)→True»",
    ),
    _walk("a cleaned source is counted", "«not (self._gaps or _has_gap_before(batch, record.offset))→True»"),
    _walk(
        "a hole in the last batch is nothing", "not «(self._gaps or _has_gap_before(batch, record.offset))→self._gaps»"
    ),
    _walk("records left out are counted", "« and not reaching_into(batch, batch.base_offset, self.skip)→»"),
    _walk("records before the position are counted", "whole =« batch.base_offset >= position and→»"),
    _walk("a batch's last record is not compared", "self.transforms is None and self.records >«→=» batch.count:"),
    _walk("holes between batches are nothing", "self._gaps |= «batch.base_offset > position→False»\n"),
    _walk(
        "none that matches behind what was removed is right",
        "if self._next == 0 and «(self.late or (self.sparse and self._following is None))→self.sparse»:",
    ),
    _walk(
        "a source without any of a cleaned target's records is right",
        "if self._next == 0 and «(self.late or (self.sparse and self._following is None))→self.late»:",
    ),
    _walk(
        "none that matches of a cleaned target is wrong",
        "(self.late or «(self.sparse and self._following is None)→self.sparse»):",
    ),
    _walk("records match in any order", "at = bisect_left(indexes, «self._next→0»)"),
    _log("records of other times are the same", "    if «timed→False»:\n        digest"),
    _walk(
        "what follows the last match is passed over",
        "return position« if self._following is None else self._following→»",
    ),
    _walk("records that transforms made need not all be there", "«self._next < copied or →»not ("),
    _queries("a log whose end is not committed is settled", "return «log.end_offset == log.high_watermark→True» or"),
    _queries("a shared log that is ahead is settled", "log.end_offset «<→>» log.high_watermark)"),
    _queries("a new leader that can't tell is believed", "if «log.error_code or →»not _is_committed"),
    _queries("a leader that can't tell of epochs is believed", "« or (agreed is not None and agreed.error_code)→»:"),
    _queries("where epochs ended is not looked at", "NO_END« if agreed is None else agreed.offset→»"),
    _queries("another leader's memory is believed", "«now.leader_epoch == log.epoch and →»"),
    _queries(
        "memory of a log that has grown is believed",
        "«(now.end_offset != log.end and not copy.assignment.shared)→False»",
    ),
    _queries("memory of what is not committed is believed", "« and _is_committed(now, copy.assignment)→»\n"),
    _queries("the remembered sequence is the next one", "«(last + 1)→last» % SEQUENCE_MODULUS"),
    _queries("a source whose end is not committed has ended", "elif «end.end_offset != end.high_watermark→False»:"),
    _queries("the stable end is the log's", "SourceBounds(start.offset, end.end_offset, «last.offset→end.end_offset»)"),
    _anchor("sequences do not wrap at 2^31", "SEQUENCE_MODULUS = 2**«31→32»"),
    _anchor("a pair's own sequence is not used", "if «self.sequence is None→True» else self.sequence"),
)
