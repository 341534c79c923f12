"""From intervals to figures: sums and merged histograms by whatever they are grouped by."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from mirror_ray.records.statistics import LATENCY_BOUNDS_MS
from mirror_ray.report.figures import PERCENTS

_HISTOGRAMS: Final = ("latency_ms", "lag_ms", "lag_records")


def aggregated(rows: DataFrame, *keys: str) -> DataFrame:
    """The sums of ``mirror_ray.report.figures.Figures`` by ``keys``, which are never null; histograms are maps.

    Args:
        rows: Of ``report_records.completed``.
        keys: Columns of it.
    """
    once = ~F.col("told_twice")
    sums = rows.groupBy(*keys).agg(
        F.count_if(once).alias("told"),
        *(
            F.sum(F.when(once, F.col(name)).otherwise(0)).alias(name)
            for name in ("records", "batches", "wire_bytes", "uncompressed_bytes", "restarts", "untold_records")
        ),
        F.sum(F.when(once, F.col("sampled_wire_bytes")).otherwise(0)).alias("measured_bytes"),
        F.sum(F.when(once, F.col("mismatches")).otherwise(0)).alias("mismatches"),
        F.count_if("told_twice").alias("told_twice"),
        F.max("lag_ms").alias("lag_ms_max"),
        F.max(F.greatest("lag_records", "lag_records_max")).alias("lag_records_max"),
        F.min("from_ms").alias("from_ms"),
        F.max("to_ms").alias("to_ms"),
    )
    return sums.join(_histograms(rows.where(once), keys), [*keys], "left")


def with_percentiles(figures: DataFrame) -> DataFrame:
    """Columns ``latency_ms_p50`` and so on beside each histogram; null where it is empty."""
    return figures.select(
        "*", *(_percentile(name, percent).alias(f"{name}_p{percent}") for name in _HISTOGRAMS for percent in PERCENTS)
    )


def _histograms(rows: DataFrame, keys: tuple[str, ...]) -> DataFrame:
    latency = F.transform(
        F.map_entries("latency_ms"),
        lambda each: F.struct(F.lit("latency_ms").alias("kind"), each["key"].alias("bound"), each["value"].alias("n")),
    )
    values = rows.select(*keys, F.explode(F.concat(latency, _samples("lag_ms"), _samples("lag_records"))).alias("each"))
    buckets = values.groupBy(*keys, "each.kind", "each.bound").agg(F.sum("each.n").alias("n"))
    return buckets.groupBy(*keys).agg(
        *(
            F.map_from_entries(F.collect_list(F.when(F.col("kind") == name, F.struct("bound", "n")))).alias(name)
            for name in _HISTOGRAMS
        )
    )


def _samples(name: str) -> Column:
    """A lag as an array of one value of a histogram, or of none where it is not known."""
    bounds = F.array(*(F.lit(bound) for bound in LATENCY_BOUNDS_MS))
    bucket = F.coalesce(
        F.try_element_at(F.filter(bounds, lambda each: each >= F.col(name)), F.lit(1)), F.lit(LATENCY_BOUNDS_MS[-1])
    )
    value = F.array(F.struct(F.lit(name).alias("kind"), bucket.alias("bound"), F.lit(1).cast("bigint").alias("n")))
    return F.when(F.col(name).isNotNull(), value).otherwise(F.array())


def _percentile(name: str, percent: int) -> Column:
    """As ``mirror_ray.report.histogram.percentile``: the bucket of the nearest rank."""
    return F.expr(
        f"""aggregate(
            array_sort(map_entries({name})),
            named_struct('seen', 0L, 'bound', cast(null as bigint)),
            (so_far, each) -> named_struct(
                'seen', so_far.seen + each.value,
                'bound', coalesce(so_far.bound, if(
                    so_far.seen + each.value >= greatest(1, ceil(
                        {percent} * aggregate(map_values({name}), 0L, (total, n) -> total + n) / 100
                    )), cast(each.key as bigint), null))
            ),
            so_far -> so_far.bound
        )"""
    )
