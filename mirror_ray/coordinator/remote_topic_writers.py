"""Who writes which remote topic: one that two flows, or two topics, write is shared, and both must know it first."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mirror_ray.config.topic_merging import RemoteTopicClaim
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
            for writer in [each for each in writers if each[0] == flow and left(each[1])]:
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
