"""Faults in what keeps offsets the same on both clusters."""

from __future__ import annotations

from tests.mutants.mutant import mutants_of

_TESTS = ("replication/preserved_offsets", "replication/preserved_model")
_partition = mutants_of("replication/partition", *_TESTS)
_source = mutants_of("replication/partition_source", *_TESTS)
_pipeline = mutants_of("replication/pipeline", *_TESTS)
_position = mutants_of("replication/position", *_TESTS)
_log = mutants_of("replication/target_log", *_TESTS)
_places = mutants_of("replication/target_log", "replication/target_log", *_TESTS)
_walk = mutants_of("replication/preserved_walk", *_TESTS)
_realignment = mutants_of("replication/realignment", *_TESTS)
_outgoing = mutants_of("replication/outgoing_batch", *_TESTS)
_rules = mutants_of("replication/merge_rules", *_TESTS)
_gaps = mutants_of("replication/offset_gaps", *_TESTS)
_translation = mutants_of("offsets/translation", "offsets/translation")
_filler = mutants_of("replication/gap_filler", "replication/gap_filler")
_lifecycle = mutants_of("replication/lifecycle", "replication/lifecycle")
_cost = mutants_of("topics/preservation", "topics/preservation")
_prefixes = mutants_of("coordinator/offset_prefixes", "coordinator/start_positions")

MUTANTS = (
    _pipeline("what lies behind a gap is sent before it is filled", "and «not self.ready[0].behind_gap→True» and"),
    _pipeline(
        "a gap is filled before what lies before it is answered",
        "return not («self.in_flight or →»self.uncommitted or self.filling)",
    ),
    _pipeline(
        "a gap is filled before what lies before it is committed",
        "return not (self.in_flight or «self.uncommitted or →»self.filling)",
    ),
    _partition(
        "the end is read while a gap is being filled", "not (self.pipeline.in_flight« or self.pipeline.filling→»)"
    ),
    _partition("a gap that is half filled counts as filled", "if ready and «ready[0].source_first == end→True»:"),
    _position("sequences begin anew behind a gap", "target_offset=end,\n«            sequence=now.next_sequence,\n→»"),
    _position("the source is not asked about what was filled", "if «source >= end→True»:"),
    _position("the last record is not compared", "newest = «log.tail if repeats and ours else None→None»"),
    _source(
        "what lies on both sides of a marker is merged",
        "«            if self.assignment.preserve_offsets:\n                self._merge(merging)\n→»",
    ),
    _source(
        "what was merged over a gap is sent", "return «None if gaps and self.assignment.preserve_offsets else →»merged"
    ),
    _source(
        "compacted batches are merged with their neighbours",
        "«            and not (assignment.preserve_offsets and batch.is_compacted)\n→»",
    ),
    _outgoing("a compacted batch stays whole", '«"runs" if assignment.preserve_offsets else →»"no"'),
    _rules("compacted batches are in runs", "if size« and not preserved→» else 0"),
    _realignment("what the source has lost is taken for a gap", "and «start > self.end.target_offset→False»:"),
    _log("a log whose batches were removed is given up", "not sent.nothing« and not assignment.preserve_offsets→»:"),
    _places("records that are missing in the log are not missed", "if «ours > room or →»(complete"),
    _places("records that are there twice are not noticed", "if ours > room« or (complete and ours < room)→»:"),
    _places("markers take no room", "log.end - start« - sum(→ - 0 * sum(»gap.end - max("),
    _log("markers are taken for somebody else's", "and («batch.is_control or →»is_filler(batch)):"),
    _log("fillers are taken for somebody else's", "and (batch.is_control« or is_filler(batch)→»):"),
    _walk(
        "a record where the target has a marker is passed over",
        "if «any(gap.start <= offset < gap.end for gap in self.filled)→False»:",
    ),
    _gaps("fillers take the marker's offset, too", "min(gap.length« - 1→» - min("),
    _cost("what is filled already is to be filled", "max(0, start« - bounds.end→»)"),
    _cost("a prefix above the bound is begun", "if offsets <=« most→ 2 * most»:"),
    _cost("a run that goes on counts again in each sample", "gaps, following = 0, «start→-1»"),
    _prefixes(
        "the bound is of one partition", "prefix_refusal(topic, remote, «sum→max»(missing.values()), self._most)"
    ),
    _translation(
        "a gap that is not filled yet counts as copied", "copied_to = «head.target if preserved else →»head.source"
    ),
    _lifecycle(
        "a position that is found at the source's end is not published",
        "may be days away.\n«        self._on_changed(copy)\n→»",
    ),
    _filler(
        "a gap that was filled under another leader counts",
        "if «copy.acknowledged.is_of_earlier_leader(found.leader_epoch)→False»:",
    ),
    _filler("a gap behind which somebody wrote counts", "if «found.end_offset > end→False»:"),
)
