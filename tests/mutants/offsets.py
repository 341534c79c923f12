"""Faults in which offset is which, and where groups are put."""

from __future__ import annotations

from tests.mutants.mutant import mutants_of

_map = mutants_of("offsets/map", "offsets/segments")
_segment = mutants_of("model/segment", "offsets/map_store", "records/segment_block")
_book = mutants_of("offsets/map", "offsets/map_store")
_gap = mutants_of("offsets/gap_scan", "offsets/gap_scan", "offsets/translator")
_translator = mutants_of("offsets/translator", "offsets/translator")
_translate = mutants_of("offsets/translation", "offsets/translation")
_merged = mutants_of("groups/merged_topics", "groups/merged_topics")
_gone_back = mutants_of("groups/commit_rules", "groups/merged_topics")
_both = mutants_of("offsets/bidirectional", "offsets/bidirectional")
_sync = mutants_of("groups/commit_rules", "groups/commit_rules")
_groups = mutants_of("groups/offset_state", "groups/offset_state_calls", "groups/offset_state")
_two_systems = mutants_of("groups/offset_state", "groups/two_systems")
_look = mutants_of("failover/left_behind", "failover/left_behind")
_commit = mutants_of("failover/commit_offsets", "failover/commit_offsets", "failover/commit_order")
_plan = mutants_of("failover/plan", "failover/plan")

MUTANTS = (
    _map("a hole is a record", "if offset <«→=» end.source:"),
    _map("a hole of the target is a record", "if offset <«→=» end.target:"),
    _map(
        "what was not told is behind the copy's end",
        "return ExactOffset(end.target)« if offset <= self._head else BeyondMap()→»",
    ),
    _map(
        "records that were not told are a hole", "if «begin.number == end.number or begin.target == end.target→True»:"
    ),
    _map(
        "records of others are the flow's", "if at_once« and begin.target - end.target == begin.number - end.number→»:"
    ),
    _map(
        "a segment goes over records that were not told",
        "if end is not None and source - end.source == «records == →»target - end.target:",
    ),
    _map("what was lost by the target stays known", "            «self._cut(segment)→pass»\n"),
    _map("a segment that is cut keeps its length", "«self._lengths[-1] = min(self._lengths[-1], room)→pass»"),
    _map(
        "a cut looks at the source alone",
        "return «min(bisect_left(self._sources, segment.source), bisect_left(self._targets, segment.target)"
        ")→bisect_left(self._sources, segment.source)»",
    ),
    _map("numbers do not wrap", "records = «(number - end.number) % SEQUENCE_MODULUS→number - end.number»"),
    _segment("blocks of two assignments are one", "self.target_topic_id, «self.epoch→0», self.segments[0].source)"),
    _book("what is told late replaces what is known", "if «found is not None and block.epoch < found.epoch→False»:"),
    _book("blocks of one epoch are late", "if found is not None and block.epoch <«→=» found.epoch:"),
    _book("another target topic has the same offsets", "(found.source_topic_id, «found→block».target_topic_id) != ids"),
    _book("another source topic has the same offsets", "(«found→block».source_topic_id, found.target_topic_id) != ids"),
    _book("what is told late is as good", "found.offsets_preserved = «block.epoch→found.epoch», block.preserved"),
    _book("blocks of what was cut are kept", "            «self._drop_cut(found, block.segments[0])→pass»\n"),
    _book("the version stays", "«        found.version = self._changes\n→»"),
    _gap("records of others are the flow's", "return «others_wrote(self._gap) or →»self._map"),
    _gap("a gap with other records than were copied is known", "        if «self._records != copied→False»:\n"),
    _gap(
        "records before the gap are in it",
        "«max(batch.base_offset, start)→batch.base_offset», min(batch.next_offset, end)",
    ),
    _gap(
        "records behind the gap are in it",
        "max(batch.base_offset, start), «min(batch.next_offset, end)→batch.next_offset»",
    ),
    _gap("aborted records are in the gap", "CommittedOnly(«aborted if self._read_committed else →»())"),
    _gap("records behind a gap in a batch with holes are in it", "if start <= record.offset <«→=» end]"),
    _translator(
        "another topic's gap is the same", "key = (source, «answer.topic_ids[0] if answer.topic_ids else →»None, gap)"
    ),
    _translator(
        "what could not be read is no answer for ever",
        '«return _UnknownGap(f"the source can\'t be read: {error}", retry=True)'
        '→found = f"{error}"\n                self._gaps[key] = found»',
    ),
    _translate("a place behind the log's end is one", "if «found.offset > log.end→False»:"),
    _translate("a place before the log's begin is one", "if «found.offset < log.start→False»:"),
    _merged("a group is put at the furthest of its places", "lead = «min→max»(parts, key"),
    _merged(
        "a place that is not known does not count",
        "        «return MergedOffset(None, lead, translations)"
        "→parts = [part for part in parts if part not in unknown] or parts»\n",
    ),
    _merged(
        "who has read all stands at its place",
        "return «max(end, part.translation.offset or 0)→part.translation.offset»",
    ),
    _merged("who has read all is put at the end alone", "return «max(end, part.translation.offset or 0)→end»"),
    _gone_back("a group that stands still has gone back", "any(offset <«→=» before.get(topic, offset + 1)"),
    _gone_back("a group that reads another topic has not gone back", "before.get(topic, offset« + 1→»)"),
    _merged(
        "what members read and nobody committed is passed over",
        "elif «subscription is not None and subscription.covers(source.topic)→False»:",
    ),
    _merged(
        "what nobody is seen to read is passed over",
        "if «subscription is None and source.topic not in unsubscribed.get((group, remote), ())→False»:",
    ),
    _both(
        "a group is put behind what it has not read",
        "offset = «min→max»(translation.offset or 0 for translation in translations)",
    ),
    _both(
        "one place that is known is enough",
        "    «if unknown is not None:\n        return unknown"
        "→sides = tuple(side for side in sides if side.translation.offset is not None) or sides»\n",
    ),
    _both("what is read again is exact", "exact = None not in ends« and read <= offset→»"),
    _both("an end that was seen too late counts", "«if both.source_end <= nothing_before→»]"),
    _both("what was not copied is known", "known = «copied and →»bool(ends)"),
    _both(
        "what has not come back is known", "complete = bool(log_ends)« and log_ends[-1].target_end <= tail.reached→»"
    ),
    _both("ends that were seen first count", "complete = bool(log_ends) and log_ends[«-1→0»].target_end"),
    _both(
        "a topic that a third side writes is carried", "        if «FlowName(other, name.source) in copying→False»:\n"
    ),
    _sync("what somebody else committed is replaced", "if «group.committed not in group.written→False»:"),
    _sync("a group is put back that did not go back", "and «not (group.went_back or meant)→False»:"),
    _sync(
        "a group is put back where both sides write",
        "if «group.translated < group.committed and group.both_sides_write→False»:",
    ),
    _sync(
        "what was meant before is put back",
        "meant = group.«written[0] == group.translated→translated in group.written»",
    ),
    _groups("a place for another offset is taken", "if entry.source is None« or entry.source.offset != offset→»:"),
    _groups("what somebody else replaced is ours", "            «entry.written = ()→pass»\n"),
    _groups("a group that stands still has gone back", "before is not None and now.offset <«→=» before"),
    _groups("a group that went back is not noticed", "«before is not None and now.offset < before→False»"),
    _groups(
        "that it went back is remembered for ever",
        "        self.unsynced.discard(entry)\n«        entry.went_back = False\n→»",
    ),
    _groups(
        "a commit that an active group refused is ours", "                «entry.written = entry.written[1:]→pass»\n"
    ),
    _groups(
        "a commit that was refused is settled",
        "        else:\n            «→self._settled(entry)\n            »entry.reason = error\n",
    ),
    _groups(
        "where it stood before is ours for ever",
        "            entry.«written = entry.written[:1]\n            entry.→»on_target",
    ),
    _groups(
        "what was there is not remembered before it is replaced",
        "(decision.offset,)« if on_target is None else (decision.offset, on_target)→»",
    ),
    _groups(
        "what is to be written is not said before",
        "            «self.unemitted.add(entry)\n            →»return decision\n",
    ),
    _groups("a place that is not exact is final", "if found.offset is not None« and found.exact→»:"),
    _groups(
        "a new offset keeps the old one's place",
        "entry.source, entry.«translation, entry.version = now, None→version = now», -1",
    ),
    _groups("a group that is gone is put on", "            «entry.source = None\n            →»self.untranslated"),
    _groups(
        "an earlier life's way back is forgotten",
        "entry.went_back = «any(written[0] < before for before in written[1:])→False»",
    ),
    _groups(
        "merged places that went back are not noticed",
        "«entry.went_back |= has_gone_back(entry.sources, sources)→pass»",
    ),
    _two_systems("what another system emits is the last word", "entry.written = «(*written, on_target)→written»"),
    _two_systems(
        "what is ours is not emitted again", "(*written, on_target)\n«            self.unemitted.add(entry)\n→»"
    ),
    _two_systems(
        "what another system has committed since is somebody else's",
        "return «on_target is not None and on_target not in (*entry.written, entry.on_target)→False»",
    ),
    _look("what is not copied is left", "        if begin < found.«log_end→stable»:\n"),
    _look("one record may be left", "        if begin «→+ 1 »< found.log_end:\n"),
    _look("open transactions are left", "        if «found.stable < found.log_end→False»:\n"),
    _look("a partition that was never copied is complete", "found.«log_start→log_end» if found.copied_to is None else"),
    _look("a group that goes on is left", "].offset «!=→<» "),
    _look("records that are left do not block", "    if «found.records→False»:\n"),
    _commit(
        "a group that was moved and worked is put back",
        "if «group in moved_before and on_destination is not None and on_destination >= translated→False»:",
    ),
    _commit(
        "a group at work is committed for",
        "«waiting = {name: of_group for name, of_group in waiting.items() if name not in taken}→pass»",
    ),
    _commit("a share group is committed for", 'return group.«kind == "share" or group.→»state'),
    _commit(
        "a commit is made before it is remembered",
        "    await «clusters.append_checkpoints(memory)\n    await _write(clusters, commits, result"
        ")→_write(clusters, commits, result)\n    await clusters.append_checkpoints(memory)»\n",
    ),
    _commit("a dry run commits", "    if «dry→False»:\n        result.committed"),
    _commit(
        "a group goes back before what it had read",
        "offset=«max(offset.offset, left[offset.destination])→offset.offset»",
    ),
    _commit("a group that is behind is not at work", "«committed[offset.destination].offset < offset.offset→False»"),
    _commit(
        "what was there is not remembered", "written=(translated,)« if on_target is None else (translated, on_target)→»"
    ),
    _commit("refused commits are given back all the same", 'if clusters.kind == "failback"« and not result.refused→»:'),
    _commit(
        "a group that went back on the source is not noticed",
        "«offset.origin_offset is not None and offset.origin_offset < last.checkpoint.upstream_offset→False»",
    ),
    _plan("a blocked step is over", 'return «self.outcome != "blocked"→True»'),
    _plan("steps behind one that is done again count", "if result is not None« and result.repeats >= repeats→»:"),
    _plan("a source that was gone is there again", "source_is_gone=«self.source_is_gone or →»now.source_is_gone"),
    _plan("a plan goes back by any result", "« and result.repeats > self.repeats→»\n"),
    _plan("any step may follow", "        if «result.step != step and not goes_back→False»:\n"),
)
