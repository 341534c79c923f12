"""Numbers for people, and the view that is no terminal."""

from __future__ import annotations

import io
import subprocess
import sys
from dataclasses import replace

import pytest
from rich.console import Console

from mirror_ray.cli.live_view import LiveView
from mirror_ray.cli.output import count, duration, size
from tests.unit.cli.fakes import FLOW, STATUS, status_of, stopped


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "-"), (0.4, "0.4s"), (42.2, "42s"), (125, "2m05s"), (3 * 3600 + 60, "3h01m"), (3e5, "3d11h")],
)
def test_durations(value: float | None, text: str) -> None:
    """As people write them."""
    assert duration(value) == text


def test_sizes_and_counts() -> None:
    """Decimal units, thousands apart, unknown is a dash."""
    assert [size(0), size(1500), size(2.5e9), size(None)] == ["0 B", "1.5 kB", "2.5 GB", "-"]
    assert [count(1234567), count(None)] == ["1,234,567", "-"]


def test_without_a_terminal_a_line_comes_every_two_seconds_or_on_a_change() -> None:
    """A log file stays readable."""
    stream = io.StringIO()
    view = LiveView(Console(file=stream, width=500))
    with view:
        for tenth in range(30):
            view.show(tenth / 10, STATUS)
        view.show(2.95, status_of(replace(FLOW, state="degraded"), problems=(stopped("it is full"),)))
    lines = stream.getvalue().splitlines()
    assert len(lines) == 4
    assert "degraded" in lines[2]
    assert lines[3] == "partition_stopped  A->B orders: it is full. Next: do something"


def test_on_a_terminal_the_view_is_drawn() -> None:
    """With flows, replicators and the time until it has caught up."""
    stream = io.StringIO()
    console = Console(file=stream, width=200, force_terminal=True)
    with LiveView(console) as view:
        view.show(0.0, STATUS)
    assert "CAUGHT UP IN" in stream.getvalue()
    assert "1/1 replicators" in stream.getvalue()


def test_a_command_line_loads_nothing_heavy_before_it_needs_it() -> None:
    """What `--help` and a look at a running system wait for: no Ray, Kafka client or pydantic by the imports alone."""
    heavy = "{'ray', 'confluent_kafka', 'kio', 'pydantic', 'cryptography', 'yaml', 'pyspark'}"
    code = f"import mirror_ray.cli.app, sys; print(sorted({heavy} & sys.modules.keys()))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
