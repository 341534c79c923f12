"""Faults in what mirrors schemas, and in what translates the ids of records."""

from __future__ import annotations

from tests.mutants.mutant import kernel_mutants_of, mutants_of

_order = mutants_of("registry/order", "registry/order")
_comparison = mutants_of("registry/comparison", "registry/comparison")
_needs = mutants_of("registry/needs", "registry/needs")
_subjects = mutants_of("registry/subjects", "registry/subjects")
_map = mutants_of("transforms/schema_ids", "transforms/schema_ids", "replication/schema_ids_partition")
_waits = mutants_of("replication/partition_waits", "replication/schema_ids_partition")
_framing = mutants_of("transforms/framing", "transforms/framing")
_flow = mutants_of("replication/flow_schema_ids", "replication/flow_schema_ids")
_kernel = kernel_mutants_of("schema_ids", "transforms/schema_ids", "transforms/met_schemas")

MUTANTS = (
    _order(
        "references come in any order",
        "for reference in by_version[at].schema.references if «reference.to in there→False»",
    ),
    _order("versions come in any order", "if «earlier.subject == later.subject→False»:"),
    _order(
        "what refers to something refused is registered", "«            if at not in refused:→            if False:»"
    ),
    _order("what is on the target can't be referred to", "and «ref.to not in known→True»"),
    _comparison("another version will do", "if «one.at.version == source.at.version→True»"),
    _comparison("another text will do", "if «there.schema.content != wanted.content→False»:"),
    _comparison("another id will do", "if «there.id != source.id→False»:"),
    _comparison("another lineage is continued", "if «on_target and not any(→False and not any(»one.schema"),
    _comparison(
        "the newest of equal versions is taken",
        "key=lambda one: (one.deleted != source.deleted, «one.at→-one.at.version»)",
    ),
    _comparison("a deleted version will do", "key=lambda one: («one.deleted != source.deleted→False», one.at)"),
    _comparison(
        "what came back stays deleted", "return Missing() if «found.deleted and lineage.is_back(source)→False» else"
    ),
    _needs("a subject of another field decides", "if «subject.name == name→subject.name.startswith(need.topic)»"),
    _needs("what has an id is plain", "if «not id_exists→True»:"),
    _needs("a GUID may be a number", "if «isinstance(need.schema, bytes)→False»:"),
    _subjects("what is excluded is mirrored", "if «self.exclude is not None and self.exclude.fits(text)→False»:"),
    _subjects("copies go back", "return topic is None or «not self.topics.is_cycle(topic)→True»"),
    _subjects(
        "a context keeps its name", "context = «self.contexts.get(subject.context, subject.context)→subject.context»"
    ),
    _map("patterns don't decide", 'if «self._framed→False»:\n            return "framed"'),
    _map("what was forgotten is known", "«self._framed.pop((topic, field), None)→pass»"),
    _map("plain topics are translated", "«self._plain is not None and self._plain.fits(topic)→False»"),
    _map(
        "a waiting record never goes on",
        'return issue.kind == "missing-id" and «not knows(self.known, issue.schema)→True»',
    ),
    _framing(
        "GUIDs tell a record from its copy", "size = len(schema) if «isinstance(schema, bytes)→False» else _ID_BYTES"
    ),
    _waits("a partition goes on without its id", "or self.transforms is None or «self.transforms.lacks→False»:"),
    _waits("what waits is not fetched again", "        self.fetch_offset = «self.process_offset→self.fetch_offset»"),
    _flow("needs are told of a topic that is read anew", "if «not self._complete→False»:\n            return set()"),
    _flow("partitions begin before the topic was read", "if self.known is None or «self._began→True»:"),
    _flow(
        "a topic that was created anew is added to",
        'created anew: it is read again")\n            «known.clear()→pass»',
    ),
    _kernel(
        "an undecided field is translated",
        "return self.issue(number, field, Schema::Id(id)«, Kind::Undecided→, Kind::Absent»",
    ),
    _kernel("the last id is any id", "if «self.last[field].0 == id→self.last[field].0 != 0»"),
    _kernel("a part of a record is translated", "            «self.edits.truncate(edits_before)→()»;"),
    _kernel("records before one that waits are translated", "        if «search.waits→false» {"),
    _kernel("an id before the data counts beside a header", "filter(|_| «!in_headers[field]→true»)"),
    _kernel("a plain field has ids", "(«Framing::Plain, _→Framing::Plain, None») | (Framing::Undecided, None)"),
    _kernel("any byte is the magic one", "(«field[0] == 0→true» && id >= 1)"),
    _kernel("0 is an id", "(field[0] == 0 && «id >= 1→id >= 0»)"),
    _kernel("a header with an id may be longer", ".filter(|_| «value.len() == FRAME_BYTES→true»)"),
    _kernel("ids are little-endian", "bytes[at..at + 4].copy_from_slice(&id.«to_be_bytes→to_le_bytes»())"),
)
