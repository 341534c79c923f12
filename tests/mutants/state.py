"""Faults in what a flow remembers, who may write it, and how its topics are read and written."""

from __future__ import annotations

from tests.mutants.mutant import mutants_of

_store = mutants_of("kafka/state_topic", "kafka/state_topic", "kafka/state_topic_writes")
_follower = mutants_of(
    "kafka/log_follower", "kafka/log_follower", "kafka/internal_topic_reader", "replication/state_topic_reader"
)
_internal = mutants_of("kafka/internal_topic_reader", "kafka/internal_topic_reader", "kafka/log_follower")
_connection = mutants_of("kafka/connection", "kafka/connection")
_pipeline = mutants_of("kafka/request_pipeline", "kafka/connection")
_stall = mutants_of("kafka/stall_watch", "kafka/stall_watch")
_record = mutants_of("state/partition_record", "state/partition_record", "coordinator/fault_rules")
_state = mutants_of("state/schema", "state/schema", "state/partition_record", "replication/state_topic_reader")
_records = mutants_of("state/records", "state/schema", "state/partition_record")
_assignment = mutants_of("coordinator/assignment_rules", "state/partition_record", "coordinator/assignment_rules")
_discovery = mutants_of(
    "topics/discovery_rules", "topics/discovery_rules", "coordinator/begun_flows", "coordinator/flow_topics"
)

MUTANTS = (
    _store("a new producer begins without a look at the owner", "        «self._check_owner()\n        →»try:\n"),
    _store(
        "the owner is not looked at once the producer has begun",
        '"session": self._owner}))])\n«            self._check_owner()\n→»',
    ),
    _store(
        "nothing ends what is left open before the owner is read",
        "            «self._transaction(producer, →str(»[(_RECONNECTED_KEY",
    ),
    _store("another owner is as good", '«owner.get("session") not in (self._owner, None)→False»'),
    _store(
        "who opens the state does not become its owner",
        '«            self._commit({_OWNER_KEY: {"session": self._owner}}, self._connect)\n→»',
    ),
    _store(
        "who was fenced writes on",
        "        «if self._fenced:\n            raise self._fenced_error()\n        →»deadline",
    ),
    _store(
        "a fenced producer is used again", "                    «self._producer = None→pass»\n                elif what"
    ),
    _store("the last grant's offset stands for all", "on_delivery = None if «index→False» else"),
    _store("a topic that forgets is a state topic", 'if «policy not in (None, "compact")→False»:'),
    _store(
        "a backfill's state fences its flow", 'return «f"{own}-backfill-{flow.backfill}" if flow.backfill else →»own'
    ),
    _store(
        "a transaction that broke off is left open",
        "            «until_answered(producer.abort_transaction, _DEADLINE_S)→pass»\n",
    ),
    _follower("a new leader is believed at once", "«                await self._trust(connection, led)\n→»"),
    _follower(
        "a leader of another epoch is trusted",
        "if self._trusted «== (connection, led.leader_epoch)→is not None and self._trusted[0] == connection»:",
    ),
    _follower(
        "a leader on another connection is trusted",
        "if self._trusted «== (connection, led.leader_epoch)→is not None and self._trusted[1] == led.leader_epoch»:",
    ),
    _follower(
        "a leader that can't tell its end is trusted",
        '«raise protocol_error(code, f"find the end of {self.partition}")→pass»',
    ),
    _follower(
        "a log that was cut and filled again is the same", "== OFFSET_OUT_OF_RANGE« or fetched.diverging_from >= 0→»:"
    ),
    _follower("what is committed may lie before what was read", "if «fetched.high_watermark < position.offset→False»:"),
    _follower("half a read is a whole one", "complete=«position.offset >= end→True»)"),
    _follower("checksums are not compared", "«            verify(batch)\n→»"),
    _follower(
        "a topic that was created anew is the same", "recreated = «self._last_id not in (None, found.topic_id)→False»"
    ),
    _follower(
        "a topic that was created anew is read on", "«        if recreated:\n            self._position = None\n→»"
    ),
    _follower(
        "the epoch of what was read is not sent",
        "position = fetch.FetchPosition(max(position.offset, batch.next_offset)«, epoch→»)",
    ),
    _follower("the leader's epoch is not sent", "position = self._position«._replace(leader_epoch=led.leader_epoch)→»"),
    _follower("markers and aborted records are records", "            if «selection.copies(batch)→True»:\n"),
    _follower(
        "a transaction that is open is waited for",
        "end = fetched.«last_stable_offset if self._parameters.read_committed else fetched.→»high_watermark",
    ),
    _internal("what was deleted is still there", "            «latest.pop(key, None)→pass»\n"),
    _internal("records of a topic that lost its end count", "                «latest.clear()→pass»\n"),
    _internal(
        "a topic that is missing is an empty one", "            if «self._log.missing→False»:\n                if"
    ),
    _internal("records are read twice", "« if record.offset >= first_offset→»]"),
    _follower("nobody is told of a topic that lost its end", "return LogChunk(«True→False», [], "),
    _connection(
        "requests may wait behind a re-authentication",
        "if «self._deferred is not None and self._reauthentication is not None→False»:",
    ),
    _connection("requests may wait in the process", "elif «self._writable is not None→False»:"),
    _connection("requests may wait beneath TLS", "elif «self._raw_transport.get_write_buffer_size()→False»:"),
    _pipeline(
        "an answer that was not due is taken",
        "if not self._outstanding« or self._outstanding[0].correlation_id != correlation_id→»:",
    ),
    _pipeline(
        "what waits in the kernel is sent after the end",
        "«self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)→pass»",
    ),
    _pipeline(
        "requests that a re-authentication deferred are never answered",
        "«        answers += [request.answer for request in self._deferred or ()]\n→»",
    ),
    _connection(
        "requests leave while we prove who we are",
        "«        elif self._deferred is not None:\n            self._deferred += requests\n→»",
    ),
    _stall(
        "a broker that hangs is waited for as long as any",
        "return« self._interval_s if self._unanswered().requests > 1 else→»",
    ),
    _stall("a peer that takes bytes hangs", "if «patience_s < self._request_timeout_s→False» and"),
    _stall("a kernel that takes bytes for a frozen process is no stall", "min(self._seen_acknowledged«, end_bytes→»)"),
    _stall("an announced silence is a stall", "self._last_byte_at«, self._silent_until→»)"),
    _pipeline("much may wait in the process", "set_write_buffer_limits(«high=0 if self._plain else 1→»)"),
    _connection(
        "a failed re-authentication leaves the connection", '«self.abort(f"re-authentication failed: {error}")→pass»'
    ),
    _record("what was settled stays so behind another pair", "settled=self.settled« and pair == self.pair→»"),
    _record("a place is looked for though it was found", "recounting=self.recounting« and pair == self.pair→»"),
    _record("records left out are left out of a new source", "self«._without_source_notes(0)→»,"),
    _record("a range left out reaches over a cut", "tuple((first, «min(after, end)→after») for"),
    _record("ranges behind a cut are kept", "for first, after in self.skip« if first < end→»)"),
    _record("flow and routes are aligned on another log", "return replace(self, skip=skip«, aligned_at=None→»)"),
    _record("strangers of the former topic are accepted", "«foreign_to=min(self.foreign_to, end), →»"),
    _record("the former log's leader epoch is kept", "«target_epoch=-1, →»settled=False)"),
    _record("what was settled stays so on another log", "target_epoch=-1«, settled=False→»)"),
    _record("what the former topic refused is left out of the new one", "target_topic_id=topic_id«, skip=()→»)"),
    _record(
        "a pair behind the copy's end is not clipped",
        "return «replace(pair, source_offset=self.end_offset, source_epoch=-1)→pair»",
    ),
    _record(
        "the origin is the latest pair",
        "return «OffsetPair(self.origin_source_offset, self.origin_target_offset, self.origin_sequence)→self.anchor»",
    ),
    _record("the origin's sequence is lost", "self.origin_target_offset«, self.origin_sequence→»)"),
    _record("routes begin where they did on another log", "else «min(self.routes_from, end)→self.routes_from»"),
    _record("the source's leader epoch is not kept", "«            source_epoch=pair.source_epoch,\n→»"),
    _record("the target's leader epoch is not kept", "«            target_epoch=pair.target_epoch,\n→»"),
    _record("the sequence is not kept", "«            sequence=pair.sequence,\n→»"),
    _state("a grant's owner is lost", '«        owner=document.get("owner", ""),\n→»'),
    _state("a decision loses where to go on", 'fault["resume"] = «OffsetPair(**fault["resume"])→None»'),
    _state("a kind is not known", '    kind = KINDS.get(prefix)«→ if prefix != "repair" else None»\n'),
    _state("skipped ranges are forgotten", '    "«skipped_ranges→resolutions»",\n'),
    _state("a flow that was handed back is ours", '    "«handed_back_ms→flow»",\n'),
    _state("what is removed stays in memory", "            «kept.pop(key, None)→pass»\n"),
    _state(
        "a topic that begins at its end keeps another mark", 'found«[f"latest/{key}"] = {→ = {f"latest/{key}": {}»}'
    ),
    _records("a pause of a topic holds back another", "return« self.topic in (None, partition.topic) and→»"),
    _records("a skipped range's target offsets are lost", "«            target_from=fault.target_from,\n→»"),
    _state("one partition's skipped ranges replace each other", "lambda key: (*key[0], «key[1]→0»),"),
    _assignment("a partition has two owners", "«        del mine[quotas[name] :]\n→»"),
    _assignment("what is over is nobody's", "«        unplaced += mine[quotas[name] :]\n→»"),
    _assignment("the remainder is nobody's", "share« + (rank < remainder)→»"),
    _assignment("a swap takes and does not give", "«        held[idlest][held[idlest].index(take)] = give\n→»"),
    _discovery("another cluster is as good", "        if «stored != seen→False»:\n"),
    _discovery("a flow that was handed back is copied", "if «state.handed_back_ms is None→True»:"),
    _discovery("another remote topic is written to", "        if «record.target_topic != remote→False»:\n"),
    _discovery(
        "a remote topic that was created anew is the same", "elif «record.target_topic_id != remote.topic_id→False»:"
    ),
    _discovery(
        "a source topic that was created anew is the same", "elif «record.source_topic_id != source.topic_id→False»:"
    ),
    _discovery("a remote topic that is gone is not missed", "        if «remote is None→False»:\n            text"),
    _discovery("a remote topic with records of others is written to", "if bound.end > bound.start«→ + 1»)"),
    _discovery("what is not committed is sure to last", "«min(self.end, self.high_watermark)→self.end»"),
    _discovery(
        "a topic that becomes shared loses its sequence",
        "    pair = «replace(record.pair, sequence=record.pair.next_sequence)→record.pair»\n",
    ),
)
