"""What Prometheus scrapes."""

from __future__ import annotations

import subprocess
import time
from dataclasses import replace

from prometheus_client.parser import text_string_to_metric_families

from mirror_ray.observe.exposition import exposition
from mirror_ray.observe.metrics import CATALOGUE, every_series
from mirror_ray.observe.system_snapshot import SystemSnapshot
from tests.support.debian import program
from tests.unit.observe.values import PROBLEM, picture

Samples = dict[str, list[tuple[dict[str, str], float]]]


def _scraped(seen: SystemSnapshot | None, *, up: bool = True, most_partitions: int = 2_000) -> Samples:
    text = exposition(seen, version="1", up=up, age_s=0.5, most_partitions=most_partitions).decode()
    found: Samples = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found.setdefault(sample.name, []).append((sample.labels, sample.value))
    return found


def test_every_series_of_the_catalogue_is_there() -> None:
    """With the labels that it says, and nothing besides."""
    found = _scraped(picture())
    assert found.keys() == every_series()
    for metric in CATALOGUE.values():
        for name in metric.series:
            allowed = {*metric.labels, "le"} if metric.kind == "histogram" else set(metric.labels)
            assert all(labels.keys() <= allowed for labels, _ in found[name])


def test_promtool_finds_names_and_texts_right() -> None:
    """Prometheus's own checker."""
    promtool = program("promtool", "prometheus")
    text = exposition(picture(), version="1", up=True, age_s=0.5, most_partitions=10)
    done = subprocess.run([promtool, "check", "metrics"], input=text, capture_output=True, timeout=60, check=False)
    assert (done.returncode, done.stdout + done.stderr) == (0, b"")


def test_figures_are_those_of_the_picture() -> None:
    """In base units."""
    found = _scraped(picture())
    flow = {"flow": "A->B", "source": "A", "target": "B"}
    assert found["mirror_ray_flow_lag_records"] == [(flow, 70)]
    assert found["mirror_ray_topic_bytes_total"] == [(flow | {"topic": "orders", "remote_topic": "A.orders"}, 60_000)]
    assert len(found["mirror_ray_partition_lag_seconds"]) == 3
    buckets = {labels["le"]: value for labels, value in found["mirror_ray_replication_latency_seconds_bucket"]}
    assert (buckets["0.002"], buckets["0.005"], buckets["0.05"], buckets["0.5"], buckets["+Inf"]) == (0, 10, 20, 30, 30)
    ((_, seconds),) = found["mirror_ray_replication_latency_seconds_sum"]
    assert seconds == 3.33


def test_problems_are_reported_word_for_word() -> None:
    """Quotes and line ends come through."""
    ((labels, value),) = _scraped(picture())["mirror_ray_problem"]
    assert (labels["text"], labels["subject"], value) == (PROBLEM.text, "orders-3", 1)


def test_what_is_not_known_has_no_series() -> None:
    """A lag that nobody knows is not 0."""
    seen = picture()
    unknown = replace(
        seen.system.flows[0], lag_records=None, lag_bytes=None, lag_seconds=None, groups=None, schemas=None
    )
    found = _scraped(replace(seen, system=replace(seen.system, flows=(unknown,))))
    gone = (
        "flow_lag_records",
        "flow_lag_bytes",
        "flow_lag_seconds",
        "checkpoint_age_seconds",
        "groups",
        "schema_subjects",
    )
    assert not found.keys() & {f"mirror_ray_{name}" for name in gone}


def test_without_a_coordinator_it_says_so() -> None:
    """With the last picture, or with none."""
    assert _scraped(None, up=False) == {"mirror_ray_coordinator_up": [({}, 0)]}
    found = _scraped(picture(), up=False)
    assert found["mirror_ray_coordinator_up"] == [({}, 0)]
    assert found["mirror_ray_flow_lag_records"]


def test_partitions_beyond_the_bound_have_no_series_of_their_own() -> None:
    """Topics have, whatever their number."""
    found = _scraped(picture(topics=10, partitions=10), most_partitions=25)
    assert len(found["mirror_ray_partition_lag_records"]) == 25
    assert found["mirror_ray_partitions_left_out"] == [({}, 75)]
    assert len(found["mirror_ray_topic_lag_records"]) == 10


def test_five_thousand_partitions_are_shown_within_a_second() -> None:
    """With series of all of them; processor time, the least of three, for the machine may be busy."""
    seen, text, took_s = picture(topics=100, partitions=50), b"", []
    for _ in range(3):
        began_s = time.process_time()
        text = exposition(seen, version="1", up=True, age_s=0.5, most_partitions=5_000)
        took_s.append(time.process_time() - began_s)
    assert min(took_s) < 1.0
    assert text.count(b"mirror_ray_partition_lag_records{") == 5_000
