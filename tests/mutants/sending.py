"""Faults in what sends, groups and queues batches, and asks again."""

from __future__ import annotations

from tests.mutants.mutant import mutants_of

_sender = mutants_of("replication/sender", "replication/sender_leases", "replication/sender")
_pipeline = mutants_of("replication/pipeline", "replication/partition", "replication/partition_model")
_groups = mutants_of("replication/commit_groups", "replication/commit_groups")
_lifecycle = mutants_of("replication/lifecycle", "replication/lifecycle")
_faults = mutants_of("replication/faults", "replication/lifecycle", "replication/partition")
_retry = mutants_of("replication/retry", "replication/retry", "replication/lifecycle")

MUTANTS = (
    _sender("no lease is asked for before a request leaves", "if «not self._lease.lasts()→False»:"),
    _sender("a partition is sent that is not held", "« and self._lease.holds(copy.source)→»"),
    _sender("a lapsed lease leaves the connection open", '«connection.abort→str»("the lease ran'),
    _sender(
        "what a lapsed lease kept back is not given up",
        "«                for request in requests:\n                    self._lost(request.sent.values())\n→»",
    ),
    _sender("what was sent before may wait in the process", "await «connection.drain()→asyncio.sleep(0)»"),
    _sender(
        "no reset behind a refusal", "if «answer.error_code and copy.pipeline.in_flight:→False:  # behind a refusal»"
    ),
    _sender("deep from the start on a new connection", "            «copy.pipeline.deep = False→pass»\n"),
    _sender("acks=1 counts as committed", "self._take_answer(copy, answer, «committing→True»)"),
    _sender("each request counts as acks=all", "committing = «acks == produce.ALL_REPLICAS→True»"),
    _sender("a group that ends is sent with acks=1", "acks = produce.«ALL_REPLICAS→LEADER_ALONE»"),
    _sender("a lost answer is forgotten", "            «self._lost(sent.values())\n            →»return\n        try:"),
    _sender("an answer that can't be read leaves the connection", "«            connection.abort(str(error))\n→»"),
    _sender(
        "a batch that an answer leaves out is forgotten",
        "            «self._lost(sent.values())\n        self._events.buffer_freed→pass\n        self._on_answered»()",
    ),
    _sender("an answer without a batch leaves the connection", '«connection.abort→str»("an answer lacks a batch'),
    _sender("a broker that stands still is waited for", "connection.stall_timeout_s = «_STALL_S→None»"),
    _sender("a request holds two batches of a remote partition", "if more and« key not in sent and→»"),
    _sender(
        "a broker that throttles gets request after request", "«1→self._allowed_requests» if throttle_ms else min("
    ),
    _sender("requests in flight leave as much room", "self._allowed_requests« - self._requests→», 0"),
    _sender("what was removed is sent", "        if «copy in self._queued→False»:\n            self._queued.discard"),
    _sender("every refusal is for a record", "if «error in RECORD_ERRORS→True» else None)"),
    _sender(
        "an error in an answer is not looked at", "        if answer.error_code«→ < 0»:\n            self._take_refusal"
    ),
    _sender(
        "a misplaced batch does not stop its partition",
        "            «self._events.failed(copy, fault)\n            →»return\n",
    ),
    _pipeline("what only the leader has is not remembered", "in «(*self.uncommitted, *→tuple(»self.in_flight):"),
    _pipeline(
        "what is in flight is not remembered", "in «(*self.uncommitted, *self.in_flight)→tuple(self.uncommitted)»:"
    ),
    _pipeline(
        "what the leader alone has outlives a restart",
        "            self._release(self.ready.popleft())\n«        self.uncommitted.clear()\n→»",
    ),
    _pipeline(
        "what the leader alone has is settled",
        "not (self.ready or self.in_flight« or self.uncommitted→» or self.filling)",
    ),
    _pipeline(
        "the next batch is put before what the leader has", "self.ready or self.in_flight« or self.uncommitted→»\n"
    ),
    _pipeline("a source position loses its leader epoch", "= (batch.source_next, «batch.source_epoch→-1»)"),
    _pipeline("a source position belongs to the sequence before", "self._boundaries[batch.«next_sequence→sequence»]"),
    _pipeline("nothing sent counts as unanswered", "return «bool(self._boundaries)→False»"),
    _groups("a group stays open where nothing follows", "return «not more or →»group.bytes"),
    _groups("a group grows without end", "« or group.bytes >= self._largest_bytes→»"),
    _groups("a group lasts without end", "« or now_s - group.began_s >= self._longest_s→»"),
    _groups(
        "a group goes on behind its end",
        'with ``acks=all``: their groups end."""\n        for partition in «partitions→()»:',
    ),
    _lifecycle(
        "what was in flight when it was taken away is awaited",
        "        «copy.remove()\n        self._carry_out→self._loops.detach»(copy)\n",
    ),
    _lifecycle("a lost connection's batches are awaited", "            return\n«        copy.lost()\n→»"),
    _lifecycle(
        "what can't pass is tried again",
        "«elif error in TRANSIENT or error in RECORD_ERRORS→else:\n            self.interrupted(copy, text)\n"
        "        if False»:",
    ),
    _lifecycle(
        "a broker that contradicts its log is asked for ever",
        'elif «error == "OUT_OF_ORDER_SEQUENCE_NUMBER"→False» and',
    ),
    _lifecycle(
        "a topic that is gone is looked for without end", "if «error in MISSING and retry.fails_for_long→False»:"
    ),
    _lifecycle(
        "it is sent on while its end is read",
        "copy.interrupt(reason if retry.fails_for_long else copy.reason)\n«        self._carry_out(copy)\n→»",
    ),
    _lifecycle("it is sent on though it has stopped", "        copy.stop(error)\n«        self._carry_out(copy)\n→»"),
    _lifecycle(
        "it stops with batches before the obstacle under way", "if copy.blocked_by is not None« and copy.drained→»:"
    ),
    _faults(
        "the fault is lost when a partition stops", "return StopCause(error.fault.text, «error.fault→None», over_by)"
    ),
    _retry("refusals at other places count together", "if «position == self.contradicted_at→True» else 1"),
    _retry(
        "an acknowledgement does not end a contradiction", "«self.contradictions, self.contradicted_at = 0, None→pass»"
    ),
)
