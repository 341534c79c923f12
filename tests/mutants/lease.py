"""Faults in the leases, and in what reads the state topic for them."""

from __future__ import annotations

from tests.mutants.mutant import mutants_of

_terms = mutants_of("model/lease_terms", "model/lease", "replication/leases")
_book = mutants_of("replication/leases", "replication/leases")
_reader = mutants_of("replication/state_topic_reader", "replication/state_topic_reader")

MUTANTS = (
    _terms("the whole lease is for sending", "return self.lease_ms / «2000→1000»"),
    _terms("the kernel has the whole lease", "return self.lease_ms« // 2→»\n"),
    _terms("a takeover waits for half a lease", "return self.lease_ms / «1000→2000» + _MARGIN_S"),
    _terms("a takeover leaves no margin", "return self.lease_ms / 1000« + _MARGIN_S→»"),
    _book("a look counts for a whole lease", "began_s + self._terms.«sending_s→lease_ms / 1000»"),
    _book("a look counts from its end", "«began_s→now_s» + self._terms.sending_s"),
    _book("a lease has no end for a partition", "return «now_s < self._until_s and →»partition in"),
    _book("a lease has no end", "        return «now_s < self._until_s→self._until_s > _NEVER»\n"),
    _book("a lease holds at the moment of its end", "        return now_s <«→=» self._until_s\n"),
    _book("a partition is held that no read has covered", "« and partition not in self._uncovered→»"),
    _book("what was dropped is held", "return now_s < self._until_s and« partition in self._held and→»"),
    _book("an epoch that is higher by one is no other", "(seen.epoch > held.epoch «→+ 1 »or"),
    _book("the same epoch of another coordinator is good", "« or (seen.epoch == held.epoch and seen != held)→»)"),
    _book("of two coordinators the first one's grant is good", "return «Tenure(seen.epoch, None)→seen» if"),
    _book("an older grant replaces a newer one", "if seen is None or shown.epoch «>→!=» seen.epoch:"),
    _book("what somebody else has had is taken", "«        if _is_over(tenure, seen):\n            return False\n→»"),
    _book("reading does not go back for an assignment", "self._read_from is None« or state_offset < self._read_from→»"),
    _book("reading again leaves a partition covered", "if «goes_back or seen != tenure→seen is None»:"),
    _book("a whole read covers what it has not shown", "«if self._seen.get(partition) == self._held[partition]→»]"),
    _book("a grant that is lost is not missed", "if since_s <«= began_s→ 0»]"),
    _book("a grant is missed that no read could show yet", "«if since_s <= began_s→»]"),
    _book("a lease outlives its topic", "self._read_from«, self._until_s = -1, _NEVER→ = -1»"),
    _book("grants outlive their topic", "«        self._seen.clear()\n→»"),
    _book("a new topic covers all", "self._uncovered = «dict.fromkeys(self._held, now_s)→{}»"),
    _book(
        "what somebody else has is still held",
        "given_up.append(GivenUpLease(partition, _why(held, seen)))«\n                self.drop(partition)→»",
    ),
    _reader("half a read renews the lease", "if «chunk.complete and self._leases→self._book»"),
    _reader(
        "a read from the wrong place renews the lease", "if chunk.complete« and self._leases.read_from == read_from→»:"
    ),
    _reader("a look counts from when it was answered", "renewed = self._leases.looked(«began_s→_now_s()», _now_s())"),
    _reader("a state topic that lost its end is believed", "«            self._leases.begin_anew(_now_s())\n→»"),
    _reader("a state topic that is gone renews the lease", "if «self._log.missing→False»:"),
    _reader("grants that a read shows are not noted", "self._give_up(«self._leases.shown(chunk.records)→()»)"),
    _reader(
        "a grant that the topic has lost is not given up",
        "«            self._give_up(self._leases.ungranted(began_s))\n→»",
    ),
    _reader(
        "grants in compressed batches are passed over",
        '«batch.codec == "none" and →»_GRANT_PREFIX not in bytes(batch.view)',
    ),
    _reader("a grant's owner is not read", "Tenure(grant[1].epoch«, grant[1].owner→»)"),
    _reader("an assignment's owner is not compared", "Tenure(assignment.epoch«, assignment.owner→»)"),
    _reader("reading goes on where it was for an earlier grant", "«            self._log.seek()\n→»"),
    _reader(
        "a clock that stands while the machine is suspended",
        '«getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)→time.CLOCK_MONOTONIC»',
    ),
    _reader("nobody is told of what is given up", "            «self._on_outdated(partition, why)→pass»\n"),
)
