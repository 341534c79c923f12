"""Our dashboards: what is wrong, how far behind, how fast; then topics; then the replicators."""

from __future__ import annotations

from typing import Final

from mirror_ray.observe.monitoring.grafana import Dashboard, DashboardRow, Panel, Query, Variable

_OF: Final = 'source=~"$source", target=~"$target"'
_TOPIC: Final = f'{_OF}, topic=~"$topic"'
_FLOW: Final = "{{source}}->{{target}}"
_CHOICES: Final = (
    Variable(name="source", series="mirror_ray_flow_up"),
    Variable(name="target", series="mirror_ray_flow_up"),
)


def _quantile(share: float) -> Query:
    rates = f"rate(mirror_ray_replication_latency_seconds_bucket{{{_OF}}}[$__rate_interval])"
    return Query(
        expression=f"histogram_quantile({share}, sum by (source, target, le) ({rates}))",
        legend=f"{_FLOW} p{share * 100:.0f}",
    )


def _rate(series: str, by: str, labels: str, legend: str) -> Query:
    return Query(expression=f"sum by ({by}) (rate({series}{{{labels}}}[$__rate_interval]))", legend=legend)


_NOW: Final = DashboardRow(
    title="Now",
    panels=(
        Panel(
            title="Problems",
            says="What is wrong now, in the words of `mirror-ray status`, and what to do next. Empty: nothing is.",
            kind="table",
            queries=(Query(expression="mirror_ray_problem == 1"),),
            columns=("severity", "kind", "flow", "subject", "text", "remedy"),
            width=24,
            height=7,
            may_be_empty=True,
        ),
        Panel(
            title="Flows down",
            says="Flows of which a side does not answer.",
            kind="stat",
            queries=(Query(expression=f"count(mirror_ray_flow_up{{{_OF}}} == 0) or vector(0)"),),
            width=4,
            height=4,
            red_above=1,
        ),
        Panel(
            title="Furthest behind",
            says="Age of the newest copied record, where there is lag.",
            kind="stat",
            unit="s",
            queries=(Query(expression=f"max(mirror_ray_flow_lag_seconds{{{_OF}}})"),),
            width=4,
            height=4,
            red_above=300,
        ),
        Panel(
            title="Partitions that don't copy",
            says="Waiting, stopped, refused or paused.",
            kind="stat",
            queries=(
                Query(
                    expression=f"sum(mirror_ray_flow_partitions{{{_OF}}} - mirror_ray_flow_partitions_copying{{{_OF}}})"
                ),
            ),
            width=4,
            height=4,
            red_above=1,
        ),
        Panel(
            title="Records/s",
            says="Acknowledged by the targets.",
            kind="stat",
            queries=(Query(expression=f"sum(rate(mirror_ray_topic_records_total{{{_OF}}}[$__rate_interval]))"),),
            width=4,
            height=4,
        ),
        Panel(
            title="Bytes/s",
            says="As they are on the wire, compressed.",
            kind="stat",
            unit="Bps",
            queries=(Query(expression=f"sum(rate(mirror_ray_topic_bytes_total{{{_OF}}}[$__rate_interval]))"),),
            width=4,
            height=4,
        ),
        Panel(
            title="Gaps",
            says="Ranges that partitions went on without, or did anew: `mirror-ray gaps`.",
            kind="stat",
            queries=(Query(expression=f"sum(mirror_ray_gaps{{{_OF}}})"),),
            width=4,
            height=4,
            red_above=1,
        ),
    ),
)

_FLOWS: Final = DashboardRow(
    title="Flows",
    panels=(
        Panel(
            title="Lag in seconds",
            says="Age of the newest copied record while there is lag, else 0.",
            unit="s",
            queries=(Query(expression=f"mirror_ray_flow_lag_seconds{{{_OF}}}", legend=_FLOW),),
        ),
        Panel(
            title="Lag in records",
            says="The source's last stable offset less what the target has acknowledged.",
            queries=(Query(expression=f"mirror_ray_flow_lag_records{{{_OF}}}", legend=_FLOW),),
        ),
        Panel(
            title="Lag in bytes",
            says="Estimated by the mean size of the records copied so far.",
            unit="bytes",
            queries=(Query(expression=f"mirror_ray_flow_lag_bytes{{{_OF}}}", legend=_FLOW),),
        ),
        Panel(
            title="Records/s by flow",
            says="Acknowledged by the target.",
            queries=(_rate("mirror_ray_topic_records_total", "source, target", _OF, _FLOW),),
        ),
        Panel(
            title="Bytes/s by flow",
            says="As they are on the wire, compressed.",
            unit="Bps",
            queries=(_rate("mirror_ray_topic_bytes_total", "source, target", _OF, _FLOW),),
        ),
        Panel(
            title="Latency",
            says="From a record's timestamp to the target's acknowledgement. A backlog shows here too.",
            unit="s",
            queries=(_quantile(0.5), _quantile(0.99)),
        ),
        Panel(
            title="Held back",
            says="Share of the time in which limits or a quota of the brokers held it; of all replicators together.",
            unit="percentunit",
            queries=(
                _rate("mirror_ray_flow_limited_seconds_total", "source, target", _OF, f"{_FLOW} limits"),
                _rate(
                    "mirror_ray_flow_throttled_seconds_total",
                    "source, target, side",
                    _OF,
                    f"{_FLOW} quota of the {{{{side}}}}",
                ),
            ),
        ),
        Panel(
            title="Age of the last heartbeat",
            says="Since the target acknowledged one.",
            unit="s",
            queries=(Query(expression=f"mirror_ray_heartbeat_age_seconds{{{_OF}}}", legend=_FLOW),),
        ),
        Panel(
            title="Age of the last checkpoint round",
            says="Since consumer groups were last carried over.",
            unit="s",
            queries=(Query(expression=f"mirror_ray_checkpoint_age_seconds{{{_OF}}}", legend=_FLOW),),
        ),
        Panel(
            title="Offsets of groups",
            says="Without an exact place on the target yet, or standing elsewhere there: `mirror-ray groups` says why.",
            queries=(
                Query(expression=f"mirror_ray_group_offsets_untranslated{{{_OF}}}", legend=f"{_FLOW} untranslated"),
                Query(expression=f"mirror_ray_group_offsets_unsynced{{{_OF}}}", legend=f"{_FLOW} unsynced"),
            ),
        ),
    ),
)

_TOPICS: Final = DashboardRow(
    title="Topics",
    panels=(
        Panel(
            title="The 20 topics furthest behind",
            says="In records.",
            queries=(Query(expression=f"topk(20, mirror_ray_topic_lag_records{{{_TOPIC}}})", legend="{{topic}}"),),
            width=12,
        ),
        Panel(
            title="The 20 busiest topics",
            says="Bytes/s, compressed.",
            unit="Bps",
            queries=(
                Query(
                    expression=f"topk(20, sum by (source, target, topic) "
                    f"(rate(mirror_ray_topic_bytes_total{{{_TOPIC}}}[$__rate_interval])))",
                    legend="{{topic}}",
                ),
            ),
            width=12,
        ),
        Panel(
            title="The 20 partitions furthest behind",
            says="In records.",
            kind="table",
            queries=(Query(expression=f"topk(20, mirror_ray_partition_lag_records{{{_TOPIC}}})"),),
            columns=("source", "target", "topic", "partition", "Value"),
            width=12,
        ),
        Panel(
            title="Compression",
            says="Bytes before compression for each byte on the wire, from samples; the 20 topics that compress least.",
            queries=(
                Query(expression=f"bottomk(20, mirror_ray_topic_compression_ratio{{{_TOPIC}}})", legend="{{topic}}"),
            ),
            width=12,
        ),
        Panel(
            title="Oldest topics",
            says="Age of the newest copied record, of the 20 topics where it is highest.",
            unit="s",
            queries=(Query(expression=f"topk(20, mirror_ray_topic_lag_seconds{{{_TOPIC}}})", legend="{{topic}}"),),
            width=12,
        ),
    ),
)

_PROCESSES: Final = DashboardRow(
    title="Replicators",
    panels=(
        Panel(
            title="Replicators",
            says="Up, and wanted.",
            queries=(
                Query(expression="sum(mirror_ray_replicator_up)", legend="up"),
                Query(expression="mirror_ray_replicators_desired", legend="wanted"),
            ),
        ),
        Panel(
            title="Processor",
            says="Share of one core. A replicator is one process with one event loop: near 1 it is at its limit.",
            unit="percentunit",
            queries=(
                Query(
                    expression="rate(mirror_ray_replicator_cpu_seconds_total[$__rate_interval])",
                    legend="{{replicator}}",
                ),
            ),
        ),
        Panel(
            title="Memory",
            says="Resident.",
            unit="bytes",
            queries=(Query(expression="mirror_ray_replicator_memory_bytes", legend="{{replicator}}"),),
        ),
        Panel(
            title="Bytes/s by replicator",
            says="Acknowledged by the targets.",
            unit="Bps",
            queries=(_rate("mirror_ray_replicator_bytes_total", "replicator", "", "{{replicator}}"),),
        ),
        Panel(
            title="Buffered",
            says="Fetched and not acknowledged yet.",
            unit="bytes",
            queries=(Query(expression="mirror_ray_replicator_buffered_bytes", legend="{{replicator}}"),),
        ),
        Panel(
            title="Partitions by replicator",
            says="How many each has.",
            queries=(Query(expression="mirror_ray_replicator_partitions", legend="{{replicator}}"),),
        ),
        Panel(
            title="Deaths",
            says="Replicators that died, by hour.",
            queries=(Query(expression="increase(mirror_ray_replicator_deaths_total[1h])", legend="deaths"),),
        ),
        Panel(
            title="Events",
            says="By level, each minute: `mirror-ray events` tells them.",
            queries=(Query(expression="sum by (level) (60 * rate(mirror_ray_events_total[5m]))", legend="{{level}}"),),
        ),
        Panel(
            title="Age of the picture",
            says="For how long the coordinator has not been heard by the gateway.",
            unit="s",
            queries=(Query(expression="mirror_ray_picture_age_seconds", legend="age"),),
        ),
    ),
)

OVERVIEW: Final = Dashboard(
    uid="mirror-ray-overview", title="mirror-ray: flows", variables=_CHOICES, rows=(_NOW, _FLOWS)
)
DETAILS: Final = Dashboard(
    uid="mirror-ray-details",
    title="mirror-ray: topics and replicators",
    variables=(*_CHOICES, Variable(name="topic", series="mirror_ray_topic_lag_records")),
    rows=(_TOPICS, _PROCESSES),
)
DASHBOARDS: Final = (OVERVIEW, DETAILS)
