"""Faults in where a copy stands, and how that is found again."""

from __future__ import annotations

from tests.mutants.mutant import mutants_of

_MODEL = "replication/partition_model"
_partition = mutants_of("replication/partition", "replication/partition", "replication/lifecycle", _MODEL)
_place = mutants_of("replication/position", "replication/position", "replication/partition", _MODEL)
_passing = mutants_of("replication/realignment", "replication/position", "replication/partition", _MODEL)
_counting = mutants_of("replication/copied_records", "replication/copied_records", "replication/recovery")
_recovery = mutants_of(
    "replication/recovery", "replication/recovery", "replication/position", "replication/transformed_partition"
)
_establishing = mutants_of("replication/log_end_queries", "replication/log_end_queries")
_anchor = mutants_of("model/offset_pair", "model/anchor")

MUTANTS = (
    _partition("where a batch was appended is not compared", "if base_offset != outgoing.target_offset:", "if False:"),
    _partition(
        "what is behind a refusal counts",
        "        if self.refused:\n            # Where",
        "        if False:\n            # Where",
    ),
    _partition(
        "acks=1 moves the pair",
        "        if committed:\n            self._commit()",
        "        if True:\n            self._commit()",
    ),
    _partition(
        "the end is read while answers are awaited",
        'in ("establishing", "stopped") and not self.pipeline.in_flight',
        'in ("establishing", "stopped")',
    ),
    _partition(
        "one record more than was acknowledged needs no look",
        "return end > self.acknowledged.target_offset or",
        "return end > self.acknowledged.target_offset + 1 or",
    ),
    _partition("the last batch behind a refusal is not looked at", "doubtful = self.refused or", "doubtful ="),
    _partition("a refusal is never over", "self.deep = self.refused = False", "self.deep = False"),
    _partition(
        "the source's leader epoch is lost where it begins",
        "self.fetch_epoch = anchor.source_epoch",
        "self.fetch_epoch = -1",
    ),
    _partition(
        "the source's leader epoch is not read on",
        "            self.fetch_epoch = max(self.fetch_epoch, batches[-1].partition_leader_epoch)\n",
        "",
    ),
    _partition(
        "the source's leader epoch is lost with a wait",
        "(self.pipeline.newest or self.acknowledged).source_epoch",
        "-1",
    ),
    _partition("no checksum is compared", "                verify(batch)\n", ""),
    _partition(
        "a batch is taken from its first record on",
        "self._take(batch, self.process_offset)",
        "self._take(batch, batch.base_offset)",
    ),
    _partition(
        "a hole moves a place that is not known",
        "        elif self.place.known:\n            self.place.passed_hole",
        "        else:\n            self.place.passed_hole",
    ),
    _partition(
        "the source's end is asked for with batches under way",
        'self.state == "copying" and self.settled\n',
        'self.state == "copying"\n',
    ),
    _partition("the source has ended though more is stable", " and self.process_offset >= stable_end:", ":"),
    _partition(
        "records that are to be copied after all are not fetched",
        "if self.acknowledged.source_offset < self.process_offset:",
        "if False:",
    ),
    _partition(
        "a source that is another log is read on",
        "if self.settled and self.fetch_offset == self.acknowledged.source_offset:",
        "if False:",
    ),
    _partition(
        "batches follow each other before one was acknowledged", "(self.deep or not self.pipeline.in_flight) and ", ""
    ),
    _partition(
        "a partition sends while its end is read", ' and self.state == "copying"\n\n    def take', "\n\n    def take"
    ),
    _partition(
        "at least once, batches follow each other", "self.deep = self.assignment.producer_id >= 0", "self.deep = True"
    ),
    _partition(
        "a refused batch is not remembered",
        "        self.pipeline.remember()\n        outgoing = self.pipeline.answered()\n",
        "        outgoing = self.pipeline.answered()\n",
    ),
    _partition(
        "what is behind a refusal is blamed on its records",
        "if record_error is None or not first_refused:",
        "if record_error is None:",
    ),
    _partition("a refused record is not looked for", "        self._singly_to = outgoing.source_next\n", ""),
    _partition(
        "what was lost is not remembered",
        "        self.pipeline.remember()\n        self.pipeline.lose()\n",
        "        self.pipeline.lose()\n",
    ),
    _partition(
        "what is buffered outlives a restart",
        "        self.pipeline.drop()\n        self.state, self.reason",
        "        self.state, self.reason",
    ),
    _partition(
        "a backfill goes on behind its end",
        "return self.fetch_offset >= self.assignment.end_offset",
        "return self.fetch_offset > self.assignment.end_offset",
    ),
    _partition(
        "a batch's sequence is its predecessor's",
        "behind.target_offset + behind.count, behind.next_sequence",
        "behind.target_offset + behind.count, behind.sequence",
    ),
    _partition(
        "a restart begins at the source's end",
        "        self.pipeline.forget()\n        self._fetch_from(self.acknowledged)\n",
        "        self.pipeline.forget()\n",
    ),
    _place(
        "the state's word that nothing is under way is taken for granted",
        "self._complete = self.assignment.settled",
        "self._complete = True",
    ),
    _place(
        "what is unanswered counts as not sent", "nothing=self._complete and not unanswered", "nothing=self._complete"
    ),
    _place(
        "who copied before counts as complete", "nothing=self._complete and not unanswered", "nothing=not unanswered"
    ),
    _place("the target's leader epoch is lost", "        self._target_epoch = log.epoch\n", ""),
    _place(
        "the target's leader epoch is lost at its end",
        "self._found(replace(anchor, target_epoch=log.epoch))",
        "self._found(anchor)",
    ),
    _place("a position inside a batch gets the epoch of its end", "epoch if reached == position else -1", "epoch"),
    _place("a source that ends before the position is read on", "if position > end:", "if False:"),
    _place(
        "a source that begins behind the position is read on",
        "        if self._passing is None:\n            source = self",
        "        if False:\n            source = self",
    ),
    _place("contents are compared again and again", "elif self.wants_contents:", "elif False:"),
    _place("a shared topic's sequence is lost", "own = self.exclusive and", "own = True or"),
    _place(
        "a hole puts the pair back", "source_offset=max(next_offset, now.source_offset)", "source_offset=next_offset"
    ),
    _place(
        "a topic that others write is taken for exclusive", "return not self.assignment.shared and self", "return self"
    ),
    _place("a remembered place is the pair's source position", "source, epoch = remembered or (", "source, epoch = ("),
    _passing("fewer source offsets than records is right", "        if position < copied_to:", "        if False:"),
    _passing(
        "more contents than records is right",
        "if not 0 < len(by.records) <= records or guessed:",
        "if not 0 < len(by.records) or guessed:",
    ),
    _passing("a cleaned topic that others write is guessed at", "<= records or guessed:", "<= records:"),
    _passing("what was removed need not be looked for", "        self.way.late = True\n", ""),
    _passing("a target that was cleaned is taken for whole", "sparse = len(by.records) < records", "sparse = False"),
    _passing(
        "records left out are counted by number",
        "Walk(records, tail, skip, transforms",
        "Walk(records, tail, (), transforms",
    ),
    _passing(
        "records left out are looked for",
        "Match(by, sparse, skip, transforms=transforms)",
        "Match(by, sparse, (), transforms=transforms)",
    ),
    _counting("a target that ends before the pair is right", "    if end < start:", "    if False:"),
    _counting("at least once, a shared topic is all ours", "return 0 if assignment.shared", "return 0 if False"),
    _counting("somebody else's last batch is ours", "if log.tail.producer_id != assignment.producer_id:", "if False:"),
    _counting(
        "another batch at the same end is right",
        "assignment.producer_id and _next_sequence(log.tail) != anchor.next_sequence",
        "assignment.producer_id and False",
    ),
    _counting("an emptied topic to which nothing was sent is ours", "    if sent.nothing:\n", "    if False:\n"),
    _counting("an emptied topic is ours", "    if sent.up_to_end:", "    if True:"),
    _counting("more sequences than offsets is right", "    if surplus == 0:", "    if surplus >= 0:"),
    _counting("fewer sequences than offsets is right", "    if surplus == 0:", "    if surplus <= 0:"),
    _counting(
        "a stranger in a topic of ours is overlooked",
        "if log.stranger is not None and not assignment.shared:",
        "if False:",
    ),
    _counting(
        "accepted strangers are looked for no more",
        "(assignment.shared or assignment.foreign_to > anchor.target_offset)",
        "assignment.shared",
    ),
    _counting("where the broker does not know us the newest batch decides", "elif not sent.nothing:", "elif False:"),
    _counting("a log that lost its end is the same", "elif log.agrees_to < anchor.target_offset:", "elif False:"),
    _counting("records of ours that are gone are not missed", "    if ours < 0:", "    if False:"),
    _counting(
        "holes behind the newest batch of ours are nothing",
        "return log.whole_from <= log.tail.next_offset",
        "return True",
    ),
    _counting(
        "a hole just behind the newest batch is nothing",
        "return log.whole_from <= log.tail.next_offset",
        "return log.whole_from <= log.tail.next_offset + 1",
    ),
    _counting(
        "nothing behind a cut is nothing at all", "<= anchor.target_offset <= log.agrees_to", "<= anchor.target_offset"
    ),
    _counting(
        "a removed last batch is compared", " or _next_sequence(log.tail) == reached.next_sequence:", " or True:"
    ),
    _counting(
        "a cleaned batch has fewer sequences",
        "(tail.base_sequence + tail.last_offset_delta + 1)",
        "(tail.base_sequence + tail.count)",
    ),
    _counting(
        "sequences do not wrap",
        "forward = (following - anchor.next_sequence) % SEQUENCE_MODULUS",
        "forward = following - anchor.next_sequence",
    ),
    _counting(
        "what is behind an emptied log is not asked for",
        "return log.end > anchor.target_offset and log.tail is None",
        "return False",
    ),
    _counting(
        "a log is scanned behind its cut",
        "return min(anchor.target_offset, log.agrees_to)",
        "return anchor.target_offset",
    ),
    _recovery(
        "copying goes on behind the batch",
        "return last.offset + 1 if self.records < len(records) else batch.next_offset",
        "return batch.next_offset",
    ),
    _recovery(
        "the last record is not compared",
        "return content_of(last, timed=timed) == content_of(record, timed=timed)",
        "return True",
    ),
    _recovery("a cleaned source is counted", "not (self._holes or _has_hole_before(batch, record.offset))", "True"),
    _recovery(
        "a hole in the last batch is nothing",
        "not (self._holes or _has_hole_before(batch, record.offset))",
        "not self._holes",
    ),
    _recovery("records left out are counted", " and not reaching_into(batch, batch.base_offset, self.skip)", ""),
    _recovery("records before the position are counted", "whole = batch.base_offset >= position and", "whole ="),
    _recovery(
        "a batch's last record is not compared",
        "self.transforms is None and self.records > batch.count:",
        "self.transforms is None and self.records >= batch.count:",
    ),
    _recovery(
        "holes between batches are nothing", "self._holes |= batch.base_offset > position\n", "self._holes |= False\n"
    ),
    _recovery(
        "none that matches behind what was removed is right",
        "if (self.late or self.sparse) and self._next == 0:",
        "if self.sparse and self._next == 0:",
    ),
    _recovery(
        "none that matches of a cleaned target is right",
        "if (self.late or self.sparse) and self._next == 0:",
        "if self.late and self._next == 0:",
    ),
    _recovery("records match in any order", "at = bisect_left(places, self._next)", "at = bisect_left(places, 0)"),
    _recovery("records of other times are the same", "    if timed:\n        digest", "    if False:\n        digest"),
    _recovery(
        "what follows the last match is passed over",
        "return position if self._following is None else self._following",
        "return position",
    ),
    _recovery("records that transforms made need not all be there", "self._next < copied or not (", "not ("),
    _establishing(
        "a log whose end is not committed is settled",
        "return log.end_offset == log.high_watermark or",
        "return True or",
    ),
    _establishing(
        "a shared log that is ahead is settled",
        "log.end_offset < log.high_watermark)",
        "log.end_offset > log.high_watermark)",
    ),
    _establishing(
        "a new leader that can't tell is believed", "if log.error_code or not _is_settled", "if not _is_settled"
    ),
    _establishing(
        "a leader that can't tell of epochs is believed", " or (agreed is not None and agreed.error_code):", ":"
    ),
    _establishing("where epochs ended is not looked at", "NO_END if agreed is None else agreed.offset", "NO_END"),
    _establishing("another leader's memory is believed", "now.leader_epoch == log.epoch and ", ""),
    _establishing(
        "memory of a log that has grown is believed",
        "(now.end_offset != log.end and not copy.assignment.shared)",
        "False",
    ),
    _establishing("memory of what is not committed is believed", " and _is_settled(now, copy.assignment)\n", "\n"),
    _establishing(
        "the remembered sequence is the next one", "(last + 1) % SEQUENCE_MODULUS", "last % SEQUENCE_MODULUS"
    ),
    _establishing(
        "a source whose end is not committed has ended", "elif end.end_offset != end.high_watermark:", "elif False:"
    ),
    _establishing(
        "the stable end is the log's",
        "SourceBounds(start.offset, end.end_offset, last.offset)",
        "SourceBounds(start.offset, end.end_offset, end.end_offset)",
    ),
    _anchor("sequences do not wrap at 2^31", "SEQUENCE_MODULUS = 2**31", "SEQUENCE_MODULUS = 2**32"),
    _anchor(
        "a pair's own sequence is not used", "if self.sequence is None else self.sequence", "if True else self.sequence"
    ),
)
