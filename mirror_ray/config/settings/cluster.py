"""Settings of a Kafka cluster: where it is, how to get in, and what its clients share."""

from __future__ import annotations

from typing import Annotated

from pydantic import BeforeValidator

from mirror_ray.config.addresses import Server
from mirror_ray.config.base import Settings, split_commas
from mirror_ray.config.numbers import AgeMilliseconds, Milliseconds
from mirror_ray.config.settings.registry import RegistrySettings
from mirror_ray.config.settings.security import SecuritySettings


class NativeCluster(Settings):
    """One Kafka cluster."""

    bootstrap_servers: Annotated[
        tuple[Server, ...], BeforeValidator(split_commas, json_schema_input_type=str | list[str])
    ]
    security: SecuritySettings = SecuritySettings()
    #: The registry of the schemas that the cluster's records have; None: there is none.
    registry: RegistrySettings | None = None
    #: ``client.rack``: the nearest replica is read if the source allows it.
    client_rack: str | None = None
    request_timeout_ms: Milliseconds = 30_000
    connection_setup_timeout_ms: Milliseconds = 10_000
    metadata_max_age_ms: AgeMilliseconds = 60_000


class ClusterSettings(NativeCluster):
    """One Kafka cluster, with the alias that the configuration gives it."""

    alias: str
