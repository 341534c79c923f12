"""Which topics of a flow are not copied because of the names that a map or a rename pattern gives."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from mirror_ray.config.flow_rules import replication_rules
from mirror_ray.config.settings import FlowSettings
from mirror_ray.config.topic_merging import RemoteTopicClaim, claims_of, conflict
from mirror_ray.coordinator.flow_state import FlowState
from mirror_ray.coordinator.remote_topic_writers import RemoteTopicWriters


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
