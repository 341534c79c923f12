"""What flows need is made before anything of a system is changed: settings that can't be used change nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Collection

from mirror_ray.config.flow_rules import config_filter, replication_rules
from mirror_ray.config.settings import FlowSettings, MirrorSettings
from mirror_ray.coordinator.ports import FlowClusters, FlowClustersFactory
from mirror_ray.model.errors import ConfigError
from mirror_ray.model.names import FlowName


async def open_ports(
    settings: MirrorSettings, flows: Collection[FlowSettings], coming: Collection[FlowName], make: FlowClustersFactory
) -> dict[FlowName, FlowClusters]:
    """The ports of the flows that are to be begun; nothing has been sent by them.

    A transform that can't be loaded on this node, as after a restart elsewhere, stops its flow alone, not the system.

    Args:
        settings: Of the system.
        flows: All that are to run.
        coming: Names of those that are to be begun.
        make: Makes a port.

    Raises:
        ConfigError: With a sentence for each flow that can't run by its settings.
    """
    ports: dict[FlowName, FlowClusters] = {}
    problems: list[str] = []
    for flow in flows:
        try:
            replication_rules(flow)
            config_filter(flow)
            if flow.name in coming:
                ports[flow.name] = make(settings, flow)
        except (ValueError, ConfigError) as error:
            problems.append(f"{flow.name}: {error}")
    if problems:
        await asyncio.gather(*(port.close() for port in ports.values()))
        raise ConfigError(*problems, "nothing has been changed")
    return ports
