"""What was exported is read back from its files."""

from __future__ import annotations

import json
from base64 import b64encode
from pathlib import Path

from mirror_ray.lab.failover_drill.both_sides import exported_ids
from mirror_ray.lab.load_record import RecordId, make_record


def test_exported_records_are_read_by_their_ids(tmp_path: Path) -> None:
    """From all files of all rounds; what no writer of the drill wrote does not count."""
    assert exported_ids(tmp_path / "missing") == set()
    for number in (1, 2):
        directory = tmp_path / f"round-{number}"
        directory.mkdir()
        record = make_record("1-A-orders", 10 * number, 0, 1_000_000_000_000, keyed=False)
        headers = [[name, None if content is None else b64encode(content).decode()] for name, content in record.headers]
        line = {"offset": 5, "timestamp_ms": record.timestamp_ms, "key": None, "value": "", "headers": headers}
        lines = [json.dumps(line), json.dumps(line | {"headers": []})]
        (directory / "A.orders-0.diverged.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    assert exported_ids(tmp_path) == {RecordId("1-A-orders", 10), RecordId("1-A-orders", 20)}
