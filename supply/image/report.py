"""The report of an image: how large it is and of what, how soon it starts, and what was run in it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from mirror_ray.lab.report_parts import document, markdown_table
from supply.image.tools import IMAGE, BuiltImage

_MB: Final = 1_000_000
_PACKAGES: Final = "/opt/mirror-ray/lib/python3.11/site-packages"
#: What is shown of an image, by where it is; the longest path that fits has a file.
_PARTS: Final = {
    f"{_PACKAGES}/ray": "Ray",
    f"{_PACKAGES}/pyspark": "PySpark, with Spark's own jars",
    f"{_PACKAGES}/mirror_ray": "mirror-ray, with its record kernel",
    "/opt/mirror-ray": "other Python packages",
    "/usr/share/mirror-ray/jars": "jars of Kafka, and of Spark's connector",
    "/usr/lib/jvm": "Java 17",
    "/": "Debian, with Python",
}
_TIMES: Final = {
    "first_command_ms": "`mirror-ray --version`, the first time",
    "command_ms": "`mirror-ray --version`, again",
    "healthy_ms": "`mirror-ray up` between brokers that run, until the health check says that the coordinator answers",
    "stopped_ms": "SIGTERM, until it has drained and ended",
}
_SAME: Final = "`make image ARGS=--again` builds it anew, without a cache, and says whether it is the same one."
_CONFINED: Final = (
    "Its root file system, entered by `deploy/image/enter.sh`: read-only but for `/tmp` and `/home/ray`, user 1000, no "
    "capability and no new privileges, a network with loopback alone, `/dev/shm` of 64 MB. Memory and processor are "
    "not bounded, and system calls not filtered."
)


@dataclass(frozen=True, kw_only=True)
class Trial:
    """What was run in an image and measured of it, and where."""

    date: str
    tool: str
    image: BuiltImage
    #: Of what ran in it.
    output: str
    sizes: Mapping[str, int]
    compressed_bytes: int
    cores: int
    memory_bytes: int
    kernel: str


def measured(output: str) -> dict[str, int]:
    """The figures in what was printed, by their names."""
    return {name: int(value) for name, value in re.findall(r"^measured (\w+) (\d+)$", output, re.MULTILINE)}


def parts(sizes: Mapping[str, int]) -> dict[str, int]:
    """Bytes of each part of an image, the largest first."""
    found = dict.fromkeys(_PARTS.values(), 0)
    for path, size in sizes.items():
        place = max((place for place in _PARTS if f"{path}/".startswith(place.rstrip("/") + "/")), key=len)
        found[_PARTS[place]] += size
    return dict(sorted(found.items(), key=lambda part: -part[1]))


def versions(output: str) -> list[str]:
    """What the programs in it said of themselves."""
    patterns = (r"^mirror-ray \S+", r"^ray, version \S+", r"^openjdk version \S+", r"^Debian \S+")
    return [found[0] for pattern in patterns if (found := re.search(pattern, output, re.MULTILINE))]


def markdown(trial: Trial) -> str:
    """The report."""
    figures = measured(trial.output)
    unpacked_mb = sum(trial.sizes.values()) / _MB
    shown = [(part, size / _MB) for part, size in parts(trial.sizes).items()]
    taken = [(text, f"{figures[name] / 1000:.2f}") for name, text in _TIMES.items()]
    size = f"{trial.compressed_bytes / _MB:,.0f} MB compressed (gzip), {unpacked_mb:,.0f} MB unpacked"
    return document(
        [
            f"# The image: {IMAGE}",
            _where(trial, figures["packages"]),
            f"Digest: `{trial.image.digest}`. {_SAME}",
            "## Size",
            f"{size}, in {trial.image.layers} layers.",
            markdown_table(("part", "MB unpacked"), shown),
            "## Start",
            markdown_table(("what", "s"), taken),
            "Wall time, with the brokers on the same cores.",
            "## What ran in it",
            _CONFINED,
            f"At the end {figures['tmp_bytes'] / _MB:,.0f} MB of `/tmp` were in use, brokers' data above all.",
            "\n".join(f"    {line}" for line in trial.output.splitlines() if not line.startswith("measured ")),
        ]
    )


def _where(trial: Trial, packages: int) -> str:
    return (
        f"`make image && make image-demo ARGS='--to docs/deploy/image.md'` wrote this on {trial.date}, by "
        f"{trial.tool}, on {trial.cores} cores with {trial.memory_bytes / 2**30:.0f} GiB, Linux {trial.kernel}. "
        f"In the image: {', '.join(versions(trial.output))}; {packages} Debian packages, whose versions it has in "
        "`/usr/share/mirror-ray/packages.txt`."
    )
