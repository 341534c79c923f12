"""Faults in which offset is which, and where groups are put."""

from __future__ import annotations

from tests.mutants.mutant import mutants_of

_map = mutants_of("offsets/segments", "offsets/segments")
_segment = mutants_of("model/segment", "offsets/map_store", "records/segment_block")
_book = mutants_of("offsets/map_store", "offsets/map_store")
_gap = mutants_of("offsets/gap_scan", "offsets/gap_scan", "offsets/translator")
_translator = mutants_of("offsets/translator", "offsets/translator")
_translate = mutants_of("offsets/translate", "offsets/translate")
_merged = mutants_of("groups/merged_topics", "groups/merged_topics")
_both = mutants_of("offsets/bidirectional", "offsets/bidirectional")
_sync = mutants_of("groups/sync_rule", "groups/sync_rule")
_groups = mutants_of("groups/offset_state", "groups/offset_state_calls", "groups/offset_state")
_look = mutants_of("failover/left_behind", "failover/left_behind")
_commit = mutants_of("failover/commit_offsets", "failover/commit_offsets", "failover/commit_order")
_plan = mutants_of("failover/plan", "failover/plan")

MUTANTS = (
    _map("a hole is a record", "if offset < end.source:", "if offset <= end.source:"),
    _map("a hole of the target is a record", "if offset < end.target:", "if offset <= end.target:"),
    _map(
        "what was not told is behind the copy's end",
        "return ExactPosition(end.target) if offset <= self._head else BeyondMap()",
        "return ExactPosition(end.target)",
    ),
    _map(
        "records that were not told are a hole",
        "if begin.number == end.number or begin.target == end.target:",
        "if True:",
    ),
    _map(
        "records of others are the flow's",
        "if at_once and begin.target - end.target == begin.number - end.number:",
        "if at_once:",
    ),
    _map(
        "a segment goes over records that were not told",
        "if end is not None and source - end.source == records == target - end.target:",
        "if end is not None and source - end.source == target - end.target:",
    ),
    _map("what was lost by the target stays known", "            self._cut(segment)\n", "            pass\n"),
    _map("a segment that is cut keeps its length", "self._lengths[-1] = min(self._lengths[-1], room)", "pass"),
    _map(
        "a cut looks at the source alone",
        "return min(bisect_left(self._sources, segment.source), bisect_left(self._targets, segment.target))",
        "return bisect_left(self._sources, segment.source)",
    ),
    _map("numbers do not wrap", "records = (number - end.number) % SEQUENCE_MODULUS", "records = number - end.number"),
    _segment(
        "blocks of two assignments are one",
        "self.target_topic_id, self.epoch, self.segments[0].source)",
        "self.target_topic_id, 0, self.segments[0].source)",
    ),
    _book("what is told late replaces what is known", "if page is not None and block.epoch < page.epoch:", "if False:"),
    _book(
        "blocks of one epoch are late",
        "if page is not None and block.epoch < page.epoch:",
        "if page is not None and block.epoch <= page.epoch:",
    ),
    _book(
        "another target topic has the same offsets",
        "(page.source_topic_id, page.target_topic_id) != (\n",
        "(page.source_topic_id, block.target_topic_id) != (\n",
    ),
    _book(
        "another source topic has the same offsets",
        "(page.source_topic_id, page.target_topic_id) != (\n",
        "(block.source_topic_id, page.target_topic_id) != (\n",
    ),
    _book("what is told late is as good", "        page.epoch = block.epoch\n", ""),
    _book(
        "blocks of what was cut are kept", "            self._drop_cut(page, block.segments[0])\n", "            pass\n"
    ),
    _book("the version stays", "        page.version = self._changes\n", ""),
    _gap("records of others are the flow's", "return others_wrote(self._gap) or self._places", "return self._places"),
    _gap(
        "a gap with other records than were copied is known",
        "        if self._records != copied:\n",
        "        if False:\n",
    ),
    _gap(
        "records before the gap are in it",
        "max(batch.base_offset, start), min(batch.next_offset, end)",
        "batch.base_offset, min(batch.next_offset, end)",
    ),
    _gap(
        "records behind the gap are in it",
        "max(batch.base_offset, start), min(batch.next_offset, end)",
        "max(batch.base_offset, start), batch.next_offset",
    ),
    _gap(
        "aborted records are in the gap", "CommittedOnly(aborted if self._read_committed else ())", "CommittedOnly(())"
    ),
    _gap(
        "records behind a gap in a batch with holes are in it",
        "if start <= record.offset < end]",
        "if start <= record.offset <= end]",
    ),
    _translator(
        "another topic's gap is the same",
        "key = (source, page.source_topic_id, gap)",
        'key = (source, TopicId(""), gap)',
    ),
    _translator(
        "what could not be read is no answer for ever",
        'return _Unknown(f"the source can\'t be read: {error}", again=True)',
        'found = f"{error}"\n                self._gaps[key] = found',
    ),
    _translate("a place behind the log's end is one", "if found.offset > there.end:", "if False:"),
    _translate("a place before the log's begin is one", "if found.offset < there.start:", "if False:"),
    _merged("a group is put at the furthest of its places", "lead = min(parts, key", "lead = max(parts, key"),
    _merged(
        "a place that is not known does not count",
        "        return MergedOffset(None, lead, nowhere)\n",
        "        parts = [part for part in parts if part not in open_ones] or parts\n",
    ),
    _merged(
        "who has read all stands at its place", "return max(end, part.place.offset or 0)", "return part.place.offset"
    ),
    _merged("who has read all is put at the end alone", "return max(end, part.place.offset or 0)", "return end"),
    _merged(
        "a group that stands still has gone back",
        "any(offset < before.get(topic, offset + 1)",
        "any(offset <= before.get(topic, offset + 1)",
    ),
    _merged(
        "a group that reads another topic has not gone back",
        "before.get(topic, offset + 1)",
        "before.get(topic, offset)",
    ),
    _merged(
        "what members read and nobody committed is passed over",
        "elif subscription is not None and subscription.covers(source.topic):",
        "elif False:",
    ),
    _merged(
        "what nobody is seen to read is passed over",
        "if subscription is None and source.topic not in unsubscribed.get(there, ()):",
        "if False:",
    ),
    _both(
        "a group is put behind what it has not read",
        "offset = min(place.offset or 0 for place in places)",
        "offset = max(place.offset or 0 for place in places)",
    ),
    _both(
        "one place that is known is enough",
        "    if unknown is not None:\n        return unknown\n",
        "    parts = tuple(part for part in parts if part.place.offset is not None) or parts\n",
    ),
    _both("what is read again is exact", "exact = None not in ends and read <= offset", "exact = None not in ends"),
    _both("an end that was seen too late counts", "if each.source_end <= nothing_before]", "]"),
    _both("what was not copied is known", "known = copied and bool(ends)", "known = bool(ends)"),
    _both(
        "what has not come back is known",
        "all_told = bool(seen) and seen[-1].target_end <= tail.reached",
        "all_told = bool(seen)",
    ),
    _both(
        "ends that were seen first count",
        "all_told = bool(seen) and seen[-1].target_end",
        "all_told = bool(seen) and seen[0].target_end",
    ),
    _both(
        "a topic that a third side writes is carried",
        "        if FlowName(other, name.source) in copying:\n",
        "        if False:\n",
    ),
    _sync("what somebody else committed is replaced", "if group.committed not in group.written:", "if False:"),
    _sync("a group is put back that did not go back", "and not (group.went_back or meant):", "and False:"),
    _sync(
        "a group is put back where both sides write",
        "if group.translated < group.committed and group.both_sides_write:",
        "if False:",
    ),
    _sync(
        "what was meant before is put back",
        "meant = group.written[0] == group.translated",
        "meant = group.translated in group.written",
    ),
    _groups(
        "a place for another offset is taken",
        "if entry.source is None or entry.source.offset != offset:",
        "if entry.source is None:",
    ),
    _groups("what somebody else replaced is ours", "            entry.written = ()\n", "            pass\n"),
    _groups(
        "a group that stands still has gone back",
        "before is not None and now.offset < before",
        "before is not None and now.offset <= before",
    ),
    _groups("a group that went back is not noticed", "before is not None and now.offset < before", "False"),
    _groups(
        "that it went back is remembered for ever",
        "        self.unsynced.discard(entry)\n        entry.went_back = False\n",
        "        self.unsynced.discard(entry)\n",
    ),
    _groups(
        "a commit that an active group refused is ours",
        "                entry.written = entry.written[1:]\n",
        "                pass\n",
    ),
    _groups(
        "a commit that was refused is settled",
        "        else:\n            entry.reason = error\n",
        "        else:\n            self._settled(entry)\n            entry.reason = error\n",
    ),
    _groups(
        "where it stood before is ours for ever",
        "            entry.written = entry.written[:1]\n            entry.stands",
        "            entry.stands",
    ),
    _groups(
        "what was there is not remembered before it is replaced",
        "(act.offset,) if on_target is None else (act.offset, on_target)",
        "(act.offset,)",
    ),
    _groups(
        "what is to be written is not said before",
        "            self.unsaid.add(entry)\n            return act\n",
        "            return act\n",
    ),
    _groups(
        "a place that is not exact is final",
        "if found.offset is not None and found.exact:",
        "if found.offset is not None:",
    ),
    _groups(
        "a new offset keeps the old one's place",
        "entry.source, entry.translation, entry.version = now, None, -1",
        "entry.source, entry.version = now, -1",
    ),
    _groups(
        "a group that is gone is put on",
        "            entry.source = None\n            self.untranslated",
        "            self.untranslated",
    ),
    _groups(
        "an earlier life's way back is forgotten",
        "entry.went_back = any(written[0] < before for before in written[1:])",
        "entry.went_back = False",
    ),
    _groups(
        "merged places that went back are not noticed",
        "entry.went_back |= has_gone_back(entry.sources, sources)",
        "pass",
    ),
    _look("what is not copied is left", "        if begin < seen.log_end:\n", "        if begin < seen.stable:\n"),
    _look("one record may be left", "        if begin < seen.log_end:\n", "        if begin + 1 < seen.log_end:\n"),
    _look("open transactions are left", "        if seen.stable < seen.log_end:\n", "        if False:\n"),
    _look(
        "a partition that was never copied is complete",
        "seen.log_start if seen.copied_to is None else",
        "seen.log_end if seen.copied_to is None else",
    ),
    _look("a group that goes on is left", "].offset != ", "].offset < "),
    _look("records that are left do not block", "    if found.records:\n", "    if False:\n"),
    _commit(
        "a group that was moved and worked is put back",
        "if group in before and stands is not None and stands >= offset:",
        "if False:",
    ),
    _commit(
        "a group at work is committed for",
        "waiting = {name: each for name, each in waiting.items() if name not in taken}",
        "pass",
    ),
    _commit("a share group is committed for", 'return group.kind == "share" or group.state', "return group.state"),
    _commit(
        "a commit is made before it is remembered",
        "    await sides.say(memory)\n    await _write(sides, commits, result)\n",
        "    await _write(sides, commits, result)\n    await sides.say(memory)\n",
    ),
    _commit("a dry run commits", "    if dry:\n        result.committed", "    if False:\n        result.committed"),
    _commit(
        "a group goes back before what it had read",
        "offset=max(place.offset, left.get(place.destination, 0))",
        "offset=place.offset",
    ),
    _commit("a group that is behind is not at work", "committed[place.destination].offset < place.offset", "False"),
    _commit(
        "what was there is not remembered",
        "written = (offset,) if stands is None else (offset, stands)",
        "written = (offset,)",
    ),
    _commit(
        "refused commits are given back all the same",
        'if sides.kind == "failback" and not result.refused:',
        'if sides.kind == "failback":',
    ),
    _commit(
        "a group that went back on the source is not noticed",
        "place.origin_offset is not None and place.origin_offset < before",
        "False",
    ),
    _plan("a blocked step is over", 'return self.outcome != "blocked"', "return True"),
    _plan(
        "steps behind one that is done again count",
        "if result is not None and result.repeats >= repeats:",
        "if result is not None:",
    ),
    _plan(
        "a source that was gone is there again",
        "source_is_gone=self.source_is_gone or now.source_is_gone",
        "source_is_gone=now.source_is_gone",
    ),
    _plan("a plan goes back by any result", " and result.repeats > self.repeats\n", "\n"),
    _plan("any step may follow", "        if result.step != step and not goes_back:\n", "        if False:\n"),
)
