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
    """One register for all flows.

    Guarantee: ``others_share`` is true only when every other writer copies in a way that bears foreign records.
    """

    def __init__(self, changed: Callable[[], None]) -> None:
        """``changed`` is called when a topic has become shared: its first writer must hear of it."""
        #: Grows whenever a topic becomes shared.
        self.version = 0
        self._writers: dict[Remote, dict[Writer, bool]] = {}
        self._said: dict[Remote, dict[FlowName, Sequence[RemoteTopicClaim]]] = {}
        self._changed = changed

    def say(self, remote: Remote, flow: FlowName, claims: Sequence[RemoteTopicClaim]) -> None:
        """Say what names the topics of a flow that are going to be copied into ``remote``."""
        self._said.setdefault(remote, {})[flow] = claims

    def unsay(self, flow: FlowName) -> None:
        """Forget what the flow has said; its topics may be gone, or others."""
        for claims in self._said.values():
            claims.pop(flow, None)

    def said(self, remote: Remote, flow: FlowName) -> list[RemoteTopicClaim]:
        """What the other flows have said of ``remote``."""
        return [claim for other, claims in self._said.get(remote, {}).items() if other != flow for claim in claims]

    def join(self, remote: Remote, writer: Writer) -> bool:
        """Say that ``writer`` is going to write ``remote``; whether others do, too."""
        writers = self._writers.setdefault(remote, {})
        if writer not in writers:
            writers[writer] = False
            if len(writers) > 1:
                self.version += 1
                self._changed()
        return len(writers) > 1

    def shares(self, remote: Remote, writer: Writer, *, ready: bool) -> None:
        """Whether none of the writer's partitions is copied any more as if it were alone."""
        self._writers[remote][writer] = ready

    def others_share(self, remote: Remote, writer: Writer) -> bool:
        """Whether ``writer`` may begin to write."""
        return all(ready for other, ready in self._writers.get(remote, {}).items() if other != writer)

    def withdraw(self, flow: FlowName, left: Callable[[str], bool]) -> None:
        """Topics of the flow that it has left are not written any more, for sure: nobody waits for them."""
        for writers in self._writers.values():
            for writer in [writer for writer in writers if writer[0] == flow and left(writer[1])]:
                del writers[writer]

    def leave(self, flow: FlowName) -> None:
        """The flow has ended; whoever is left alone may go back to writing alone."""
        self.unsay(flow)
        for remote, writers in list(self._writers.items()):
            left = {writer: False for writer in writers if writer[0] != flow}
            if len(left) != len(writers):
                self._writers[remote] = left
            if not left:
                del self._writers[remote]


class TopicNameConflicts:
    """One flow's names, beside those of the system's other flows."""

    def __init__(self, settings: FlowSettings, state: FlowState, claims: RemoteTopicWriters) -> None:
        self.configure(settings)
        self._state = state
        self._claims = claims

    def configure(self, settings: FlowSettings) -> None:
        """Go by the names of these settings from now on."""
        self._rules = replication_rules(settings)

    def unfit(self, selected: Mapping[str, str], target_id: str) -> dict[str, str]:
        """Why topics can't have the names that they would get, or fall together with others although nobody says so.

        A topic that has been copied into that remote topic already goes on: who comes later gives way.

        Args:
            selected: The remote topics' names by source topic.
            target_id: The target cluster's id.
        """
        self._claims.unsay(self._rules.flow)
        if not self._rules.all_names:
            return {}
        refused = {topic: why for topic in selected if (why := self._rules.name_refusal(topic)) is not None}
        by_remote: dict[str, list[RemoteTopicClaim]] = defaultdict(list)
        for claim in claims_of(self._rules, (topic for topic in selected if topic not in refused)):
            by_remote[claim.remote].append(claim)
        records = self._state.by_topic()
        for remote, claims in by_remote.items():
            why = conflict([*claims, *self._claims.said((target_id, remote), self._rules.flow)])
            if why is not None:
                refused |= {claim.topic: why for claim in claims if claim.topic not in records}
            fit = [claim for claim in claims if claim.topic not in refused]
            self._claims.say((target_id, remote), self._rules.flow, fit)
        return refused
