"""Faults in what an answer to a trouble means."""

from __future__ import annotations

from tests.mutants.mutant import mutants_of

_remedy = mutants_of("coordinator/fault_rules", "coordinator/fault_rules", "state/partition_record")

MUTANTS = (
    _remedy(
        "an answer to another place is carried out", "in TOPIC_KINDS or latest == decided", "in TOPIC_KINDS or True"
    ),
    _remedy(
        "a record is left out that was copied",
        "return latest.source_offset <= repair.trouble.source_from",
        "return True",
    ),
    _remedy("another remote topic is as good", "if facts.target_topic_id != record.target_topic_id:", "if False:"),
    _remedy(
        "another source topic is as good",
        "if facts.source_topic_id != record.source_topic_id:\n        return f",
        "if False:\n        return f",
    ),
    _remedy(
        "a new remote topic with records is written to",
        'in ("target_missing", "target_recreated") and not facts.target_is_empty:',
        'in ("target_missing", "target_recreated") and False:',
    ),
    _remedy("routes miss what is copied again", "begin is None or begin <= source_offset or", "True or"),
    _remedy(
        "a new source's producer is the old one",
        "untouched = facts.target_end == record.target_offset",
        "untouched = True",
    ),
    _remedy(
        "strangers that are accepted count as ours",
        "            anchor = replace(record.pair, sequence=record.pair.next_sequence)\n",
        "            anchor = record.anchor\n",
    ),
    _remedy(
        "what others wrote is not accepted",
        "replace(record.at(anchor), foreign_to=facts.target_end)",
        "record.at(anchor)",
    ),
    _remedy("what was left out before is copied", "left_out = (*record.skip, (trouble", "left_out = ((trouble"),
    _remedy(
        "a position that is not the target's end is gone on from",
        "if not record.shared and facts.target_end != anchor.target_offset:",
        "if False:",
    ),
    _remedy(
        "notes on a source that was cut are kept",
        "        record = record.of_cut_source(anchor.source_offset)\n",
        "        pass\n",
    ),
    _remedy(
        "notes on a source that is another are kept",
        "        record = record.of_new_source(facts.source_topic_id, facts.source_start)\n",
        "        pass\n",
    ),
    _remedy(
        "notes on a new source are kept by skip",
        "moved = record.of_new_source(facts.source_topic_id, facts.source_start)",
        "moved = replace(record, source_topic_id=facts.source_topic_id)",
    ),
    _remedy(
        "notes on a new target are kept by skip",
        "return _begin(repair, record.of_new_target(facts.target_topic_id), facts, record.source_offset)",
        "return _begin(repair, replace(record, target_topic_id=facts.target_topic_id), facts, record.source_offset)",
    ),
    _remedy(
        "notes on a new target are kept by resync",
        "return _begin(repair, record.of_new_target(facts.target_topic_id), facts, start)",
        "return _begin(repair, replace(record, target_topic_id=facts.target_topic_id), facts, start)",
    ),
    _remedy(
        "what is emptied is copied with records left out",
        "begun = replace(record, recounting=False, skip=())",
        "begun = replace(record, recounting=False)",
    ),
    _remedy(
        "what is copied anew is not emptied",
        "return replace(_begin(repair, begun, facts, start), empty_to=facts.target_end)",
        "return _begin(repair, begun, facts, start)",
    ),
    _remedy("a topic that others write is emptied", "if record.shared or _goes_on_empty", "if _goes_on_empty"),
    _remedy(
        "a route begins before its beginning",
        "start = max(facts.source_start, record.begins_at or 0)\n    if kind",
        "start = facts.source_start\n    if kind",
    ),
    _remedy("it is counted from where that has failed", "return there and not record.recounting", "return there"),
    _remedy(
        "it is counted from an origin that the source has lost",
        "there = facts.source_start <= origin.source_offset and",
        "there =",
    ),
    _remedy(
        "it is counted from an origin that the target has lost", " and origin.target_offset <= facts.target_end\n", "\n"
    ),
    _remedy("a shared topic's new producer begins at the end", "0 if record.shared else None", "None"),
    _remedy(
        "a new producer goes on with the old one's sequence",
        "record.sequence if untouched else 0 if",
        "record.sequence if True else 0 if",
    ),
    _remedy("a new place keeps the old producer", "new_producer=not untouched,", "new_producer=False,"),
    _remedy(
        "a new place keeps the old origin",
        "record=replace(record.at(anchor).with_origin(anchor), recounting=False),",
        "record=replace(record.at(anchor), recounting=False),",
    ),
    _remedy(
        "where it goes on, the old origin is kept",
        "return FaultAction(record=record.at(anchor).with_origin(anchor), gap=repair.skipped_range())",
        "return FaultAction(record=record.at(anchor), gap=repair.gap())",
    ),
    _remedy(
        "ranges that touch are two", "if merged and first <= merged[-1][1]:", "if merged and first < merged[-1][1]:"
    ),
    _remedy(
        "a range inside another one shortens it",
        "merged[-1] = (merged[-1][0], max(end, merged[-1][1]))",
        "merged[-1] = (merged[-1][0], end)",
    ),
    _remedy(
        "too many ranges lose those ahead",
        "for each in merged if each[1] > record.source_offset)",
        "for each in merged if each[0] > record.source_offset)",
    ),
    _remedy(
        "too many ranges leave the origin before them",
        "return replace(record, skip=ahead).with_origin(record.pair)",
        "return replace(record, skip=ahead)",
    ),
    _remedy("a lost copy is skipped", 'if kind == "copy_lost" and policy == "skip":', "if False:"),
    _remedy("a refused record is sent again", 'if kind == "record_refused" and policy == "resync":', "if False:"),
    _remedy(
        "what others wrote is deleted by resync",
        'if policy == "resync" and shared and kind not in _SHARED_RESYNC:',
        "if False:",
    ),
    _remedy(
        "a cut target is another log from its end on",
        "else min(trouble.target_from, facts.target_end)",
        "else facts.target_end",
    ),
    _remedy(
        "a shared topic goes on behind what it has lost",
        "        source = max(facts.source_start, record.begins_at or 0)\n",
        "        pass\n",
    ),
    _remedy(
        "what is empty is copied on though the source lost some",
        " and record.source_offset >= facts.source_start\n",
        "\n",
    ),
    _remedy(
        "what is counted anew is not marked so",
        "replace(record.at(record.origin), recounting=True)",
        "record.at(record.origin)",
    ),
    _remedy(
        "it is counted from the latest pair",
        "replace(record.at(record.origin), recounting=True)",
        "replace(record, recounting=True)",
    ),
)
