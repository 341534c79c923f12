"""Writes the lists of jars and their checksums anew: ``python -m mirror_ray.jars``."""

from __future__ import annotations

from pathlib import Path

from mirror_ray.jars.maven import KAFKA, SPARK, checksums_of, fetched


def main() -> None:
    """Write the lists of all poms, from jars that Maven fetches now."""
    for bundle in (KAFKA, SPARK):
        with fetched(bundle) as plain, fetched(bundle, options=("-Dmdep.prependGroupId=true",)) as grouped:
            groups = {digest: name for name, digest in checksums_of(grouped).items()}
            lines = [
                f"{digest} {name} {groups[digest].removesuffix(f'.{name}')}\n"
                for name, digest in checksums_of(plain).items()
            ]
        Path(__file__).parent.joinpath("poms", f"{bundle}.jars").write_text("".join(lines))


if __name__ == "__main__":
    main()
