"""Reads Kafka with Spark: options of its connector for a cluster, and exact ranges of partitions."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping
from typing import Final

from pyspark.sql import DataFrame, SparkSession

from mirror_ray.config.settings import ClusterSettings, SaslSettings
from mirror_ray.kafka.security import ClientSecurity
from mirror_ray.kafka.tls_stores import reveal
from mirror_ray.model.names import TopicPartition

#: The columns of ``read_ranges``, as Spark's connector names and types them.
SCHEMA: Final = (
    "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, timestampType int"
)
_FETCH_MAX_WAIT_MS: Final = "50"

_LOGIN: Final = "org.apache.kafka.common.security"
#: The Java class that gets tokens from ``sasl.oauthbearer.token.endpoint.url``.
_OIDC_HANDLER: Final = f"{_LOGIN}.oauthbearer.secured.OAuthBearerLoginCallbackHandler"


def kafka_options(cluster: ClusterSettings) -> dict[str, str]:
    """Options of Spark's Kafka connector for a cluster: addresses, security, timeouts. They hold secrets.

    TLS material is in them as PEM text, so that executors need no files.

    Raises:
        ConfigError: A store can't be read, or something is missing; names the key.
    """
    security = ClientSecurity.build(cluster.alias, cluster.security)
    settings = cluster.security
    options = {
        "bootstrap.servers": ",".join(cluster.bootstrap_servers),
        "security.protocol": settings.protocol,
        "request.timeout.ms": str(cluster.request_timeout_ms),
        # The connector fetches past the offsets that it is to read: at a log's end each task would wait for records.
        "fetch.max.wait.ms": _FETCH_MAX_WAIT_MS,
        "client.rack": cluster.client_rack or "",
    }
    if security.ssl_context is not None:
        material = security.material
        options["ssl.endpoint.identification.algorithm"] = settings.ssl.endpoint_identification_algorithm
        if material.authorities is not None:
            options |= {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": material.authorities}
        if material.chain is not None and material.key is not None:
            options |= {
                "ssl.keystore.type": "PEM",
                "ssl.keystore.certificate.chain": material.chain,
                "ssl.keystore.key": material.key,
            }
    if security.mechanism is not None and settings.sasl is not None:
        options |= _sasl_options(cluster.alias, settings.sasl)
    return {f"kafka.{key}": value for key, value in options.items()}


def read_ranges(
    spark: SparkSession,
    cluster: ClusterSettings,
    ranges: Mapping[TopicPartition, tuple[int, int]],
    *,
    splits: int | None = None,
) -> DataFrame:
    """The committed records at offsets ``[start, end)`` of each partition, with the columns of Spark's connector.

    Empty ranges are left out. ``splits``: about how many tasks read; None:
    one for each partition.

    Reading fails, with Spark's error, where records were deleted before they were read: nothing is skipped silently.
    """
    wanted = {partition: span for partition, span in ranges.items() if span[0] < span[1]}
    if not wanted:
        return spark.createDataFrame([], SCHEMA)
    partitions: dict[str, list[int]] = defaultdict(list)
    starts: dict[str, dict[str, int]] = defaultdict(dict)
    ends: dict[str, dict[str, int]] = defaultdict(dict)
    for (topic, partition), (start, end) in wanted.items():
        partitions[topic].append(partition)
        starts[topic][str(partition)] = start
        ends[topic][str(partition)] = end
    reader = (
        spark.read.format("kafka")
        .options(**kafka_options(cluster))
        .option("kafka.isolation.level", "read_committed")
        .option("assign", json.dumps(partitions))
        .option("startingOffsets", json.dumps(starts))
        .option("endingOffsets", json.dumps(ends))
        .option("failOnDataLoss", "true")
    )
    if splits is not None:
        reader = reader.option("minPartitions", str(splits))
    return reader.load()


def _sasl_options(alias: str, sasl: SaslSettings) -> dict[str, str]:
    options, key = {"sasl.mechanism": sasl.mechanism}, f"{alias}.sasl.jaas.config"
    if sasl.mechanism != "OAUTHBEARER":
        module = "plain.PlainLoginModule" if sasl.mechanism == "PLAIN" else "scram.ScramLoginModule"
        password = reveal(key, sasl.password) if sasl.password else ""
        return options | {"sasl.jaas.config": _jaas(module, username=sasl.username or "", password=password)}
    module = "oauthbearer.OAuthBearerLoginModule"
    if sasl.token_endpoint_url is None:
        return options | {"sasl.jaas.config": _jaas(module, unsecuredLoginStringClaim_sub=sasl.unsecured_subject or "")}
    secret = reveal(key, sasl.client_secret) if sasl.client_secret else ""
    scope = {"scope": sasl.scope} if sasl.scope else {}
    return options | {
        "sasl.login.callback.handler.class": _OIDC_HANDLER,
        "sasl.oauthbearer.token.endpoint.url": sasl.token_endpoint_url,
        "sasl.jaas.config": _jaas(module, clientId=sasl.client_id or "", clientSecret=secret, **scope),
    }


def _jaas(module: str, **options: str) -> str:
    """A JAAS line; quotes and backslashes in values are escaped."""
    escaped = {key: value.replace("\\", "\\\\").replace('"', '\\"') for key, value in options.items()}
    quoted = (f'{key}="{value}"' for key, value in escaped.items())
    return f"{_LOGIN}.{module} required {' '.join(quoted)};"
