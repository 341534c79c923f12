"""Keys of the whole file: at its top, and of MM2's Connect workers."""

from __future__ import annotations

from typing import Final

from mirror_ray.config.keys.key import ValueKind, ignored, used
from mirror_ray.config.keys.shared import CONNECT_REST, CONNECT_STORAGE, CONVERTERS, EXACTLY_ONCE, JMX, OURS

_CONNECT_CLUSTER = "there is no Connect cluster: Ray places and restarts the actors"

DRIVER_KEYS: Final = (
    used("clusters", "clusters", ValueKind.LIST),
    used("config.providers", "", ValueKind.LIST),
    used("config.providers.*", ""),
    used("spark.executors", "spark.executors", ValueKind.INTEGER, text=OURS),
    used("spark.executor.cores", "spark.executor_cores", ValueKind.INTEGER, text=OURS),
    used("spark.executor.memory", "spark.executor_memory", text=OURS),
    used("spark.driver.memory", "spark.driver_memory", text=OURS),
    used("spark.start.timeout.seconds", "spark.start_timeout_s", ValueKind.SECONDS, text=OURS),
    used("gateway.enabled", "gateway.enabled", ValueKind.BOOLEAN, text=OURS),
    used("gateway.host", "gateway.host", text=OURS),
    used("gateway.port", "gateway.port", ValueKind.INTEGER, text=OURS, silent="8484, or any free one if that is taken"),
    used("gateway.token", "gateway.token", ValueKind.SECRET, text=OURS),
    used("gateway.tokens", "gateway.tokens", ValueKind.LIST, text=OURS),
    used("gateway.tokens.*", "gateway.tokens", text=OURS),
    used("gateway.reading", "gateway.reading", text=OURS),
    used("gateway.tls.certificate", "gateway.tls.certificate", text=OURS, silent="none: plain HTTP"),
    used("gateway.tls.key", "gateway.tls.key", text=OURS, silent="none"),
    used("gateway.metrics.partitions", "gateway.metrics_partitions", ValueKind.INTEGER, text=OURS),
    used("alerts.lag.seconds", "alerts.lag_s", ValueKind.SECONDS, text=OURS),
    used("alerts.lag.growing.seconds", "alerts.lag_growing_s", ValueKind.SECONDS, text=OURS),
    used("alerts.heartbeat.seconds", "alerts.heartbeat_s", ValueKind.SECONDS, text=OURS),
    used("alerts.checkpoint.seconds", "alerts.checkpoint_s", ValueKind.SECONDS, text=OURS),
    used("alerts.replicator.died.seconds", "alerts.replicator_died_s", ValueKind.SECONDS, text=OURS),
    used("alerts.crash.loop.deaths", "alerts.crash_loop_deaths", ValueKind.INTEGER, text=OURS),
    used("alerts.crash.loop.seconds", "alerts.crash_loop_s", ValueKind.SECONDS, text=OURS),
    used("alerts.gap.seconds", "alerts.gap_s", ValueKind.SECONDS, text=OURS),
    used("cost.price.per.gb", "cost.price_per_gb", ValueKind.NUMBER, text=OURS, silent="0: no price is shown"),
    used("cost.currency", "cost.currency", text=OURS),
    used("placement.labels", "placement.labels", ValueKind.LABELS, text=OURS, silent="none: on every node"),
    used("elastic.min.replicators", "elastic.min_replicators", ValueKind.INTEGER, text=OURS),
    used(
        "elastic.max.replicators",
        "elastic.max_replicators",
        ValueKind.INTEGER,
        text=OURS,
        silent="none: the number stays",
    ),
    used("elastic.target.cpu", "elastic.target_cpu", ValueKind.NUMBER, text=OURS),
    used("elastic.lag.seconds", "elastic.lag_seconds", ValueKind.SECONDS, text=OURS),
    used("elastic.scale.out.after.seconds", "elastic.scale_out_after_s", ValueKind.SECONDS, text=OURS),
    used("elastic.scale.in.after.seconds", "elastic.scale_in_after_s", ValueKind.SECONDS, text=OURS),
    used("audit.enabled", "audit.enabled", ValueKind.BOOLEAN, text=OURS),
    used("audit.required", "audit.required", ValueKind.BOOLEAN, text=OURS),
    used("audit.retention.ms", "audit.retention_ms", ValueKind.INTEGER, text=OURS),
    *ignored(
        CONNECT_REST,
        "dedicated.mode.enable.internal.rest listeners rest.advertised.host.name rest.advertised.listener "
        "rest.advertised.port response.http.headers.config access.control.allow.methods access.control.allow.origin "
        "ssl.client.auth listeners.https.*",
    ),
    *ignored(
        "MM2 ignores client keys without an alias; write ALIAS.consumer.KEY, ALIAS.producer.KEY or ALIAS.admin.KEY",
        "consumer.* producer.* admin.*",
    ),
)

WORKER_KEYS: Final = (
    *ignored(EXACTLY_ONCE, "exactly.once.source.support"),
    *ignored(CONNECT_STORAGE, "offset.storage.* config.storage.* status.storage.* offset.flush.*"),
    *ignored(
        _CONNECT_CLUSTER,
        "group.id client.id connect.protocol connector.client.config.override.policy heartbeat.interval.ms "
        "session.timeout.ms rebalance.timeout.ms scheduled.rebalance.max.delay.ms task.* worker.* plugin.discovery "
        "plugin.path topic.creation.enable topic.tracking.*",
    ),
    *ignored(
        CONNECT_REST,
        "inter.worker.* admin.listeners admin.listeners.https.* listeners listeners.https.* rest.* "
        "response.http.headers.config access.control.* ssl.client.auth",
    ),
    *ignored(
        "in MM2 it tunes the Connect worker only; for the data write ALIAS.consumer.KEY or ALIAS.producer.KEY",
        "client.dns.lookup connections.max.idle.ms metadata.* receive.buffer.bytes send.buffer.bytes reconnect.* "
        "request.timeout.ms retry.* socket.connection.* client.rack",
    ),
    *ignored(JMX, "metric.reporters metrics.*"),
    *ignored("config.providers belong to the top of the file", "config.providers config.providers.*"),
    *CONVERTERS,
)
