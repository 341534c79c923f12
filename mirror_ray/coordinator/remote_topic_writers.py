"""Who writes which remote topic: one that two flows, or two topics, write is shared, and both must know it first."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence

from mirror_ray.config.flow_rules import replication_rules
from mirror_ray.config.settings import FlowSettings
from mirror_ray.config.topic_merging import RemoteTopicClaim, claims_of, conflict
from mirror_ray.coordinator.flow_state import FlowState
from mirror_ray.model.names import FlowName

#: A target cluster's id, and a topic there.
Remote = tuple[str, str]
#: A flow, and a source topic of it.
Writer = tuple[FlowName, str]


class RemoteTopicWriters:
    """The register of writers, for all flows of a system.

    Guarantee: ``others_ready`` is true only when every other writer copies so that foreign records do no harm.
    """

    def __init__(self, changed: Callable[[], None]) -> None:
        """``changed`` is called when a topic has become shared: its first writer must find out."""
        #: Grows whenever a topic becomes shared.
        self.version = 0
        self._writers: dict[Remote, dict[Writer, bool]] = {}
        self._declared: dict[Remote, dict[FlowName, Sequence[RemoteTopicClaim]]] = {}
        self._changed = changed

    def declare(self, remote: Remote, flow: FlowName, claims: Sequence[RemoteTopicClaim]) -> None:
        """Declare which topics of a flow are going to be copied into ``remote``, and what gives them that name."""
        self._declared.setdefault(remote, {})[flow] = claims

    def forget(self, flow: FlowName) -> None:
        """Forget what the flow has declared."""
        for claims in self._declared.values():
            claims.pop(flow, None)

    def others_claims(self, remote: Remote, flow: FlowName) -> list[RemoteTopicClaim]:
        """What the other flows have declared of ``remote``."""
        return [claim for other, claims in self._declared.get(remote, {}).items() if other != flow for claim in claims]

    def add(self, remote: Remote, writer: Writer) -> bool:
        """Note that ``writer`` is going to write ``remote``; whether others do, too."""
        writers = self._writers.setdefault(remote, {})
        if writer not in writers:
            writers[writer] = False
            if len(writers) > 1:
                self.version += 1
                self._changed()
        return len(writers) > 1

    def set_ready(self, remote: Remote, writer: Writer, *, ready: bool) -> None:
        """Note whether all partitions of the writer are copied as shared ones."""
        self._writers[remote][writer] = ready

    def others_ready(self, remote: Remote, writer: Writer) -> bool:
        """Whether ``writer`` may begin to write: all other writers are ready."""
        return all(ready for other, ready in self._writers.get(remote, {}).items() if other != writer)

    def remove_left(self, flow: FlowName, left: Callable[[str], bool]) -> None:
        """Remove topics that the flow does not write any more, for sure; ``left`` says which."""
        for writers in self._writers.values():
            for writer in [writer for writer in writers if writer[0] == flow and left(writer[1])]:
                del writers[writer]

    def remove(self, flow: FlowName) -> None:
        """Remove a flow that has ended; a writer that is left alone may write alone again."""
        self.forget(flow)
        for remote, writers in list(self._writers.items()):
            others = {writer: False for writer in writers if writer[0] != flow}
            if len(others) != len(writers):
                self._writers[remote] = others
            if not others:
                del self._writers[remote]


class TopicNameConflicts:
    """Finds topics of a flow whose remote names are illegal, or those of other topics too."""

    def __init__(self, settings: FlowSettings, state: FlowState, writers: RemoteTopicWriters) -> None:
        self.configure(settings)
        self._state = state
        self._writers = writers

    def configure(self, settings: FlowSettings) -> None:
        """Name topics by these settings from now on."""
        self._rules = replication_rules(settings)

    def unfit(self, selected: Mapping[str, str], target_id: str) -> dict[str, str]:
        """Why topics can't have the names that they would get: illegal, or undeclared merges with other topics.

        A topic that has been copied into that remote topic already goes on; the later one is refused.

        Args:
            selected: The remote topics' names by source topic.
            target_id: The target cluster's id.
        """
        self._writers.forget(self._rules.flow)
        if not self._rules.all_names:
            return {}
        refused = {topic: reason for topic in selected if (reason := self._rules.name_refusal(topic)) is not None}
        by_remote: dict[str, list[RemoteTopicClaim]] = defaultdict(list)
        for claim in claims_of(self._rules, (topic for topic in selected if topic not in refused)):
            by_remote[claim.remote].append(claim)
        records = self._state.by_topic()
        for remote, claims in by_remote.items():
            reason = conflict([*claims, *self._writers.others_claims((target_id, remote), self._rules.flow)])
            if reason is not None:
                refused |= {claim.topic: reason for claim in claims if claim.topic not in records}
            fit = [claim for claim in claims if claim.topic not in refused]
            self._writers.declare((target_id, remote), self._rules.flow, fit)
        return refused
