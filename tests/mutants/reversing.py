"""Faults in what reverses a flow whose topics keep their names."""

from __future__ import annotations

from tests.mutants.mutant import mutants_of

_cut = mutants_of("reversal/cut", "reversal/cut")
_maps = mutants_of("reversal/offset_maps", "reversal/offset_maps")
_waves = mutants_of("failover/waves", "failover/waves")
_rules = mutants_of("topics/discovery_rules", "topics/discovery_rules")

MUTANTS = (
    _cut("records that have diverged are passed over", "self.lost« or self.diverged.count→»:"),
    _cut("what the source has lost is passed over", "if self.pair is None« or self.lost→» or"),
    _cut("offsets that differ count as preserved", "«not self.record.preserve_offsets or →»self.pair.target_offset =="),
    _cut("a flow that does not preserve offsets has to", "return «not self.record.preserve_offsets or →»self.pair"),
    _cut("records are appended to a topic that has lost some", "«self.why_not(policy) is not None→False»"),
    _cut("an empty topic that was created anew is asked about", "bool(self.replaced and «self.empty→False»)"),
    _cut("the flow back begins before the cut", "OffsetPair(«cut.pair.target_offset→0», end"),
    _cut("what the source has is somebody else's", "foreign_to=«end→-1»"),
    _cut("sequences begin anew", "end, «cut.pair.next_sequence→0»)"),
    _cut("appended records keep their offsets", "«pair.source_offset == pair.target_offset→True»,"),
    _cut("names that a policy gives are reversed", 'or «rules.named_by(topic) != "policy"→True»'),
    _maps("what is known already is published again", "begin = «back.segments.tail.source→0»"),
    _maps("numbers begin at the cut of a segment", "(segment.number« + passed→») %"),
    _maps("a segment that is cut keeps its beginning", "segment.source« + passed→»"),
    _maps("a segment that is cut keeps its length", "segment.length« - passed→», number"),
    _waves("a group that is away is moved again", "if «group in self.groups_away→False»:"),
    _waves("a topic that is away is waited for", "if «topic in self.topics_away→False»:"),
    _waves("a wave moves every group", "«not self.is_wave→True» or group in"),
    _waves("a wave leaves every topic", "«not self.is_wave→True» or topic in"),
    _waves("a plan that is not finished has moved groups", "if «not plan.finished→False»:"),
    _waves("a wave that has come back is away", "«found.pop(plan.options.wave, None)→pass»"),
    _waves("all that came back is away", "«found.clear()→pass»"),
    _waves("another wave comes back", "if plan.id == «options.wave→plan.id»), None)\n        if chosen"),
    _rules("a flow that was reversed runs", "if state.reversal is not None and «state.reversal.away→False»:"),
)
