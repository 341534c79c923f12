"""The sizing table in the docs is what the race's results come to."""

from __future__ import annotations

import json
from pathlib import Path

_DOCS = Path(__file__).parents[3] / "docs"
_HEADROOM = 0.7
#: What a row says, and where its figures are: workload, case, contender.
_ROWS = {
    "1 KB, zstd, 500 in a batch": ("throughput", "", "mirror-ray"),
    "1 KB, zstd, 100 in a batch": ("codecs", "zstd", "mirror-ray"),
    "1 KB, uncompressed, 100 in a batch": ("codecs", "none", "mirror-ray"),
    "100 B, uncompressed, 10 in a batch": ("small-batches", "", "mirror-ray"),
    "900 KB": ("large-records", "", "mirror-ray"),
    "1 KB in batches of 16 KB, target 100 ms away, 8 partitions": (
        "wan",
        "target 100 ms away, 8 partitions",
        "mirror-ray",
    ),
    "the same, source 100 ms away": ("wan", "source 100 ms away, 8 partitions", "mirror-ray"),
    "1 KB, zstd, target of three brokers, replication factor 3": ("rf3", "", "mirror-ray"),
    "a topic with LogAppendTime": ("repack", "LogAppendTime source", "mirror-ray"),
    "a compacted topic": ("repack", "compacted source", "mirror-ray"),
    "uncompressed, recompressed with zstd on the way": ("repack", "uncompressed, as it is", "mirror-ray zstd"),
}


def _table() -> list[str]:
    rows = json.loads((_DOCS / "benchmarks/race/results.json").read_text())["rows"]
    figures = {(row["workload"], row["case"], row["contender"]): row["figures"] for row in rows}
    lines = [
        "| records | measured records/s | CPU seconds for a million | plan with, records/s | MB/s |",
        "|---|---|---|---|---|",
    ]
    for name, where in _ROWS.items():
        rate, cpu_s, bytes_per_s = (
            figures[where][key]["median"] for key in ("records_per_s", "cpu_s_per_million", "source_bytes_per_s")
        )
        planned = _HEADROOM * min(rate, 1_000_000 / cpu_s)
        figures_of_it = (rate, cpu_s, planned, bytes_per_s / rate * planned / 1e6)
        lines.append(f"| {name} | {' | '.join(map(_short, figures_of_it))} |")
    return lines


def _short(number: float) -> str:
    """Two figures: one run does not say more."""
    rounded = float(f"{number:.2g}")
    return f"{rounded:,.0f}" if rounded >= 10 else f"{rounded:g}"


def test_the_table_is_made_from_the_race() -> None:
    """Each row by the formula that stands above it; the expected table is in the failure."""
    text = (_DOCS / "install.md").read_text()
    stated = text.partition("<!-- sizing: checked by a test -->\n")[2].partition("<!-- sizing end -->")[0]
    assert stated.strip().splitlines() == _table()
