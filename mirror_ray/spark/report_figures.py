"""From intervals to figures: sums and merged histograms of groups."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from mirror_ray.records.statistics import LATENCY_BOUNDS_MS
from mirror_ray.report.figures import PERCENTS

_HISTOGRAMS: Final = ("latency_ms", "lag_ms", "lag_records")
#: The kind of the row itself, among the values of its histograms.
_ROW: Final = "row"


def aggregated(rows: DataFrame, *keys: str, **more: Column) -> DataFrame:
    """The sums of ``report.figures.ThroughputFigures`` by ``keys``, which are never null; histograms are maps.

    ``rows`` are those of ``report_records.completed``; ``more``: further aggregates, by the names of their columns.
    """
    once = ~F.col("told_twice")
    summed = (
        *("records", "batches", "wire_bytes", "source_bytes", "uncompressed_bytes"),
        *("restarts", "untold_records", "mismatches"),
    )
    columns = {
        "told": F.count_if(once),
        **{name: F.sum(F.when(once, F.col(name)).otherwise(0)) for name in summed},
        "measured_bytes": F.sum(F.when(once, F.col("sampled_wire_bytes")).otherwise(0)),
        "told_twice": F.count_if("told_twice"),
        "lag_ms_max": F.max("lag_ms"),
        "lag_records_max": F.max(F.greatest("lag_records", "lag_records_max")),
        "from_ms": F.min("from_ms"),
        "to_ms": F.max("to_ms"),
        **more,
    }
    # One pass: each row occurs once for itself, and once for each bucket of its histograms.
    values = F.concat(_values(F.lit(_ROW)), F.when(once, _buckets()).otherwise(F.array()))
    exploded = rows.withColumn("value", F.explode(values))
    parts = exploded.groupBy(*keys, "value.kind", "value.bound").agg(
        F.sum("value.n").alias("n"), *(column.alias(f"row_{name}") for name, column in columns.items())
    )
    return parts.groupBy(*keys).agg(
        *(
            F.first(F.when(F.col("kind") == _ROW, F.col(f"row_{name}")), ignorenulls=True).alias(name)
            for name in columns
        ),
        *(
            F.map_from_entries(F.collect_list(F.when(F.col("kind") == name, F.struct("bound", "n")))).alias(name)
            for name in _HISTOGRAMS
        ),
    )


def with_percentiles(figures: DataFrame) -> DataFrame:
    """Columns ``latency_ms_p50`` and so on beside each histogram; null where it is empty."""
    return figures.select(
        "*", *(_percentile(name, percent).alias(f"{name}_p{percent}") for name in _HISTOGRAMS for percent in PERCENTS)
    )


def _buckets() -> Column:
    """The values of a row's histograms."""
    latency = F.transform(
        F.map_entries("latency_ms"), lambda bucket: _value(F.lit("latency_ms"), bucket["key"], bucket["value"])
    )
    return F.concat(latency, *(_sample(name) for name in ("lag_ms", "lag_records")))


def _sample(name: str) -> Column:
    """A lag as a value of a histogram; no value where the lag is not known."""
    bounds = F.array(*(F.lit(bound) for bound in LATENCY_BOUNDS_MS))
    above = F.try_element_at(F.filter(bounds, lambda bound: bound >= F.col(name)), F.lit(1))
    value = _values(F.lit(name), F.coalesce(above, F.lit(LATENCY_BOUNDS_MS[-1])))
    return F.when(F.col(name).isNotNull(), value).otherwise(F.array())


def _values(kind: Column, bound: Column | None = None) -> Column:
    return F.array(_value(kind, F.lit(0) if bound is None else bound, F.lit(1)))


def _value(kind: Column, bound: Column, number: Column) -> Column:
    return F.struct(kind.alias("kind"), bound.cast("bigint").alias("bound"), number.cast("bigint").alias("n"))


def _percentile(name: str, percent: int) -> Column:
    """As ``mirror_ray.report.figures.percentile``: the bucket of the nearest rank."""
    return F.expr(
        f"""aggregate(
            array_sort(map_entries({name})),
            named_struct('count', 0L, 'bound', cast(null as bigint)),
            (so_far, bucket) -> named_struct(
                'count', so_far.count + bucket.value,
                'bound', coalesce(so_far.bound, if(
                    so_far.count + bucket.value >= greatest(1, ceil(
                        {percent} * aggregate(map_values({name}), 0L, (total, n) -> total + n) / 100
                    )), bucket.key, null))
            ),
            so_far -> so_far.bound
        )"""
    )
