"""The bill of materials is CycloneDX, and has every part."""

from __future__ import annotations

import json
from datetime import UTC, datetime

from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

import mirror_ray
from supply.parts import SupplyPart, all_parts
from supply.sbom import bill

_MOMENT = datetime(2026, 11, 24, tzinfo=UTC)


def test_it_is_valid() -> None:
    """By CycloneDX's own schema, with a part of each kind."""
    one_of_each = {(part.ecosystem, bool(part.group), part.brought_by): part for part in all_parts()}
    text = bill(one_of_each.values(), _MOMENT)
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) is None


def test_it_is_whole() -> None:
    """Each part once, by its package URL; mirror-ray depends on all."""
    parts = all_parts()
    document = json.loads(bill(parts, _MOMENT))
    assert document["metadata"]["component"]["version"] == mirror_ray.__version__
    assert sorted(part["purl"] for part in document["components"]) == sorted(part.purl for part in parts)
    [depends] = [entry["dependsOn"] for entry in document["dependencies"] if entry["ref"] == "mirror-ray"]
    assert len(depends) == len(parts)


def test_a_jar_has_its_checksum_and_what_brought_it() -> None:
    """The same jar twice, by two packages, is two components."""
    one = SupplyPart("maven", "org.a", "a", "1.0", sha256="ab" * 32, brought_by="kafka-4.3.0")
    other = SupplyPart("maven", "org.a", "a", "1.0", sha256="cd" * 32, brought_by="pyspark")
    components = json.loads(bill([one, other], _MOMENT))["components"]
    assert {part["properties"][0]["value"]: part["hashes"][0]["content"] for part in components} == {
        "kafka-4.3.0": "ab" * 32,
        "pyspark": "cd" * 32,
    }


def test_a_mistake_is_found() -> None:
    """Else the first test would say nothing."""
    document = json.loads(bill([], _MOMENT))
    document["metadata"]["component"]["type"] = "programme"
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(json.dumps(document)) is not None
