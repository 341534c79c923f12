"""The table of keys, against Kafka 4.3.0's own names, the settings and the docs."""

from __future__ import annotations

from pathlib import Path

import mirror_ray.config
from mirror_ray.config import keys as table
from mirror_ray.config.keys import KeyUse, find_key
from mirror_ray.config.reference import SCOPES, deviations_table, fill, keys_table, our_default

#: Names of all ConfigDefs of Kafka 4.3.0, each with the classes that define it.
_KNOWN = Path(__file__).parent / "kafka_4_3_0_keys.txt"
_DOCS = Path(mirror_ray.config.__file__).parents[2] / "docs" / "configuration.md"


def test_every_key_of_kafka_is_accounted_for() -> None:
    """Used, ignored or refused, in the scope where Kafka knows it."""
    connector = (*table.FLOW_KEYS, *table.CLUSTER_KEYS, *table.DRIVER_KEYS)
    scopes = {
        "producer": table.PRODUCER_KEYS,
        "consumer": table.CONSUMER_KEYS,
        "admin": table.ADMIN_KEYS,
        "worker": (*table.CLUSTER_KEYS, *table.WORKER_KEYS),
    }
    missing = []
    for line in _KNOWN.read_text().splitlines():
        name, *kinds = line.split()
        missing += [(kind, name) for kind in kinds if find_key(scopes.get(kind, connector), name) is None]
    assert missing == []


def test_ignored_and_refused_keys_have_a_reason() -> None:
    """And a used one has a field."""
    for _, rows in SCOPES:
        for row in rows:
            assert row.text or row.use is KeyUse.USED
            assert row.field or row.use is not KeyUse.USED or row.name.startswith("config.providers")


def test_every_default_that_differs_has_its_reason() -> None:
    """No deviation from MM2 without its reason, and no reason without a deviation."""
    rows = (*table.FLOW_KEYS, *table.CONSUMER_KEYS, *table.PRODUCER_KEYS)
    differing = {
        row.name
        for row in rows
        if row.use is KeyUse.USED
        and row.field.startswith(
            ("topics", "groups", "offset_syncs", "heartbeats", "fetch", "produce", "cluster", "policy.")
        )
        and row.field != "policy.options"
        and our_default(row) != row.default
    }
    assert differing == {row.name for row in rows if row.deviates}


def test_docs_are_current() -> None:
    """``python -m mirror_ray.config.reference`` writes them."""
    docs = _DOCS.read_text()
    assert fill(docs) == docs
    assert keys_table() in docs
    assert deviations_table() in docs


def test_longest_pattern_wins() -> None:
    """An exact name first, then the most specific ``*``."""
    found = find_key(table.SECURITY_KEYS, "sasl.oauthbearer.assertion.file")
    assert found is not None
    assert found.name == "sasl.oauthbearer.assertion.*"
    assert find_key(table.FLOW_KEYS, "no.such.key") is None
