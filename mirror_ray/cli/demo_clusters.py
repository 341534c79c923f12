"""The demo's own clusters, asked past the system that copies between them."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack, closing
from types import TracebackType
from typing import TYPE_CHECKING, Self

from mirror_ray.cli.demo_summary import DemoPartition, of_topics
from mirror_ray.config.flow_rules import replication_rules
from mirror_ray.kafka.admin import ClusterAdmin
from mirror_ray.model.names import TopicPartition

if TYPE_CHECKING:
    from mirror_ray.config.settings import FlowSettings, MirrorSettings


class DemoClusters:
    """A context manager. Where the sources' logs end is asked once, when it is entered: the traffic has stopped."""

    def __init__(self, settings: MirrorSettings, produced: Mapping[str, Mapping[TopicPartition, int]]) -> None:
        """``produced``: what was acknowledged to the traffic, by cluster and partition."""
        self._settings = settings
        self._produced = produced
        self._stack = ExitStack()
        self._admins: dict[str, ClusterAdmin] = {}
        self._ends: dict[str, Mapping[TopicPartition, tuple[int, int]]] = {}

    def __enter__(self) -> Self:
        for alias, cluster in self._settings.clusters.items():
            self._admins[alias] = self._stack.enter_context(closing(ClusterAdmin(cluster, "mirror-ray-demo")))
        self._ends = {alias: self._admins[alias].log_bounds(produced) for alias, produced in self._produced.items()}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def look(self, positions: Mapping[tuple[str, TopicPartition], int]) -> list[DemoPartition]:
        """Every partition of the demo's topics. ``positions``: how far the system says that it has come, by flow."""
        flows = [each for each in self._settings.flows if each.enabled and each.name.is_live]
        return [partition for flow in flows for partition in self._of_flow(flow, positions)]

    def _of_flow(self, flow: FlowSettings, positions: Mapping[tuple[str, TopicPartition], int]) -> list[DemoPartition]:
        name, rules = flow.name, replication_rules(flow)
        produced = self._produced.get(name.source, {})
        remote = {each: TopicPartition(rules.remote_topic(each.topic), each.partition) for each in produced}
        bounds = self._admins[name.target].log_bounds(remote.values())
        return of_topics(
            name,
            produced,
            self._ends.get(name.source, {}),
            {each: bounds[there] for each, there in remote.items() if there in bounds},
            {each: at for (of, each), at in positions.items() if of == str(name)},
        )
