"""Faults in what the resolution of a fault means."""

from __future__ import annotations

from tests.mutants.mutant import mutants_of

_rules = mutants_of("coordinator/fault_rules", "coordinator/fault_rules", "state/partition_record")

MUTANTS = (
    _rules("an answer to another place is carried out", "in TOPIC_KINDS or «latest == decided→True»"),
    _rules(
        "a record is left out that was copied", "return «latest.source_offset <= resolution.trouble.source_from→True»"
    ),
    _rules("another remote topic is as good", "if «context.target_topic_id != record.target_topic_id→False»:"),
    _rules(
        "another source topic is as good",
        "if «context.source_topic_id != record.source_topic_id→False»:\n        return f",
    ),
    _rules(
        "a new remote topic with records is written to",
        'in ("target_missing", "target_recreated") and «not context.target_is_empty→False»:',
    ),
    _rules("routes miss what is copied again", "«begin is None or begin <= source_offset→True» or"),
    _rules("a new source's producer is the old one", "untouched = «context.target_end == record.target_offset→True»"),
    _rules(
        "strangers that are accepted count as ours",
        "            pair = «replace(record.pair, sequence=record.pair.next_sequence)→record.pair»\n",
    ),
    _rules(
        "what others wrote is not accepted", "«replace(record.at(pair), foreign_to=context.target_end)→record.at(pair)»"
    ),
    _rules("what was left out before is copied", "left_out = («*record.skip, →»(fault"),
    _rules(
        "a position that is not the target's end is gone on from",
        "if «not record.shared and context.target_end != pair.target_offset→False»:",
    ),
    _rules(
        "notes on a source that was cut are kept", "        «record = record.of_cut_source(pair.source_offset)→pass»\n"
    ),
    _rules(
        "notes on a source that is another are kept",
        "        «record = record.of_new_source(context.source_topic_id, context.source_start)→pass»\n",
    ),
    _rules(
        "notes on a new source are kept by skip",
        "moved = «record.of_new_source(context.source_topic_id, context.source_start"
        ")→replace(record, source_topic_id=context.source_topic_id)»",
    ),
    _rules(
        "notes on a new target are kept by skip",
        "return _begin(resolution, «record.of_new_target("
        "→replace(record, target_topic_id=»context.target_topic_id), context, record.source_offset)",
    ),
    _rules(
        "notes on a new target are kept by resync",
        "return _begin(resolution, «record.of_new_target("
        "→replace(record, target_topic_id=»context.target_topic_id), context, start)",
    ),
    _rules("what is emptied is copied with records left out", "begun = replace(record, recounting=False«, skip=()→»)"),
    _rules(
        "what is copied anew is not emptied",
        "return «replace(_begin(resolution, begun, context, start), empty_to=context.target_end"
        ")→_begin(resolution, begun, context, start)»",
    ),
    _rules("a topic that others write is emptied", "if «record.shared or →»_goes_on_empty"),
    _rules(
        "a route begins before its beginning",
        "start = «max(context.source_start, record.begins_at or 0)→context.source_start»\n    if kind",
    ),
    _rules("it is counted from where that has failed", "return there« and not record.recounting→»"),
    _rules(
        "it is counted from an origin that the source has lost",
        "there =« context.source_start <= origin.source_offset and→»",
    ),
    _rules(
        "it is counted from an origin that the target has lost", "« and origin.target_offset <= context.target_end→»\n"
    ),
    _rules("a shared topic's new producer begins at the end", "«0 if record.shared else →»None"),
    _rules("a new producer goes on with the old one's sequence", "record.sequence if «untouched→True» else 0 if"),
    _rules("a new place keeps the old producer", "new_producer=«not untouched→False»,"),
    _rules(
        "a new place keeps the old origin", "record=replace(record.at(pair)«.with_origin(pair)→», recounting=False),"
    ),
    _rules(
        "where it goes on, the old origin is kept",
        "return FaultAction(record=record.at(pair)«.with_origin(pair), gap=resolution.skipped_range"
        "→, gap=resolution.gap»())",
    ),
    _rules("ranges that touch are two", "if merged and first <«=→» merged[-1][1]:"),
    _rules("a range inside another one shortens it", "merged[-1] = (merged[-1][0], «max(end, merged[-1][1])→end»)"),
    _rules("too many ranges lose those ahead", "for skipped in merged if skipped[«1→0»] > record.source_offset)"),
    _rules(
        "too many ranges leave the origin before them", "return replace(record, skip=ahead)«.with_origin(record.pair)→»"
    ),
    _rules("a lost copy is skipped", '("copy_lost", «"skip"→"stop"»): "where'),
    _rules("a refused record is sent again", '("record_refused", «"resync"→"stop"»): "the target'),
    _rules(
        "what others wrote is deleted by resync",
        'if «policy == "resync" and shared and kind not in _SHARED_RESYNC | LEFT_OUT_KINDS→False»:',
    ),
    _rules(
        "a cut target is another log from its end on",
        "else «min(fault.target_from, context.target_end)→context.target_end»",
    ),
    _rules(
        "a shared topic goes on behind what it has lost",
        "        «source = max(context.source_start, record.begins_at or 0)→pass»\n",
    ),
    _rules(
        "what is empty is copied on though the source lost some",
        "« and record.source_offset >= context.source_start→»\n",
    ),
    _rules(
        "what is counted anew is not marked so",
        "«replace(record.at(record.origin), recounting=True)→record.at(record.origin)»",
    ),
    _rules("it is counted from the latest pair", "replace(record«.at(record.origin)→», recounting=True)"),
)
