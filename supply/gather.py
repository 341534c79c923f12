"""Adds a database of advisories in the OSV format to the list: ids and ranges of our packages, no texts.

python -m supply.gather NAME DATE DIRECTORY, with the name of the database, and the day of its contents. Advisories that
the list had from that database are replaced.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import yaml

from supply.advisories import LIST
from supply.parts import KERNEL, ROOT, all_parts, of_crate, of_lock

_ECOSYSTEMS = {"PyPI": "pypi", "Maven": "maven", "crates.io": "cargo"}
#: By what RustSec tells advisories about a crate's upkeep from those about faults.
_NO_FAULT = ("notice", "unmaintained")


def gathered(documents: Iterator[dict[str, Any]], packages: set[str], source: str) -> list[dict[str, Any]]:
    """The advisories about ``packages`` (``ecosystem/name``), in the list's format; withdrawn ones are left out."""
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for document in documents:
        for affected in document.get("affected", []) if "withdrawn" not in document else []:
            package = f"{_ECOSYSTEMS.get(affected['package']['ecosystem'])}/{affected['package']['name'].lower()}"
            ranges = list(chain.from_iterable(map(_ranges, _events(affected))))
            is_fault = affected.get("database_specific", {}).get("informational") not in _NO_FAULT
            if package in packages and ranges and is_fault:
                ids = [document["id"], *document.get("aliases", [])]
                entry = {"package": package, "ids": ids, "ranges": [], "source": source}
                found.setdefault((package, document["id"]), entry)["ranges"] += ranges
    return list(found.values())


def _events(affected: dict[str, Any]) -> Iterator[list[dict[str, str]]]:
    return (found["events"] for found in affected.get("ranges", []) if found["type"] in ("ECOSYSTEM", "SEMVER"))


def _ranges(events: list[dict[str, str]]) -> Iterator[tuple[str, str | None]]:
    """The ranges between the events; one that only names its last version has no end, and is checked by hand."""
    first: str | None = None
    for event in events:
        if "introduced" in event:
            first = "" if event["introduced"] == "0" else event["introduced"]
        elif "fixed" in event and first is not None:
            yield first, event["fixed"]
            first = None
    if first is not None:
        yield first, None


def main(name: str, date: str, directory: Path) -> None:
    """Write the new list."""
    document = json.loads(LIST.read_text())
    every = of_lock((ROOT / "requirements.lock").read_text())
    parts = [*every, *of_crate(ROOT / KERNEL, tests=True), *all_parts()]
    packages = {f"{part.ecosystem}/{':'.join(filter(None, (part.group, part.name)))}" for part in parts}
    files = [path for path in sorted(directory.rglob("*")) if path.suffix in (".yaml", ".json")]
    loaded = (yaml.load(path.read_text(), Loader=yaml.CSafeLoader) for path in files)
    kept = [advisory for advisory in document["advisories"] if advisory["source"] != name]
    sources = [source for source in document["sources"] if source["name"] != name]
    document["sources"] = [*sources, {"name": name, "date": date}]
    documents = (found for found in loaded if "affected" in found)
    document["advisories"] = [*kept, *gathered(documents, packages, name)]
    LIST.write_text(text(document))
    print(f"{len(document['advisories']) - len(kept)} advisories about our packages, of {len(files)}")


def text(document: dict[str, Any]) -> str:
    """The list as JSON, an advisory a line."""
    advisories = sorted(document["advisories"], key=lambda advisory: (advisory["package"], advisory["ids"]))
    lines = ",\n".join(f"    {json.dumps(advisory)}" for advisory in advisories)
    head = json.dumps({key: document[key] for key in ("sources", "accepted")}, indent=2).removesuffix("\n}")
    return f'{head},\n  "advisories": [\n{lines}\n  ]\n}}\n'


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
