"""The bill of materials of a release, in CycloneDX 1.6: ``make sbom``."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path

from cyclonedx.model import HashAlgorithm, HashType, Property
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.model.license import DisjunctiveLicense
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL

import mirror_ray
from supply.parts import SupplyPart, all_parts


def bill(parts: Iterable[SupplyPart], moment: datetime) -> str:
    """The document, as JSON: mirror-ray, and each part with its package URL, for a jar with its SHA-256."""
    product = Component(
        name="mirror-ray",
        version=mirror_ray.__version__,
        type=ComponentType.APPLICATION,
        bom_ref="mirror-ray",
        purl=PackageURL("pypi", None, "mirror-ray", mirror_ray.__version__),
        licenses=[DisjunctiveLicense(id="Apache-2.0")],
    )
    components = {_reference(part): _component(part) for part in parts}
    bom = Bom(components=components.values())
    bom.metadata.component = product
    bom.metadata.timestamp = moment
    bom.register_dependency(product, components.values())
    return JsonV1Dot6(bom).output_as_string(indent=2) + "\n"


def _reference(part: SupplyPart) -> str:
    return f"{part.brought_by}:{part.purl}" if part.brought_by else part.purl


def _component(part: SupplyPart) -> Component:
    return Component(
        group=part.group or None,
        name=part.name,
        version=part.version,
        type=ComponentType.LIBRARY,
        bom_ref=_reference(part),
        purl=PackageURL.from_string(part.purl),
        hashes=[HashType(alg=HashAlgorithm.SHA_256, content=part.sha256)] if part.sha256 else None,
        properties=[Property(name="mirror-ray:brought-by", value=part.brought_by)] if part.brought_by else None,
    )


def main(path: Path) -> None:
    """Write it to ``path``."""
    parts = all_parts()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(bill(parts, datetime.now(UTC)))
    print(f"{path}: {len(parts)} parts")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
