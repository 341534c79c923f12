"""Numbers for people, and the view that is no terminal."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from dataclasses import replace

import pytest
from rich.console import Console

from mirror_ray.cli.live_view import LiveView
from mirror_ray.cli.output import count, duration, size
from tests.support.factories import system_status
from tests.unit.cli.fakes import FLOW, STATUS, stopped


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
        view.show(2.95, system_status(replace(FLOW, state="degraded"), problems=(stopped("it is full"),)))
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


#: What no question about a running system needs; ``requests`` and ``jsonschema`` are Ray's, which would import them.
HEAVY = ("confluent_kafka", "kio", "pydantic", "cryptography", "yaml", "pyspark", "pyarrow", "requests", "jsonschema")


def _imported(code: str) -> list[str]:
    """What of ``HEAVY`` the code imports in a process of its own; ``[]``: nothing."""
    script = (
        f"{code}; import sys; print([name for name in {HEAVY} if getattr(sys.modules.get(name), '__file__', None)])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1].replace("'", '"'))  # type: ignore[no-any-return]


def test_a_command_imports_what_it_needs() -> None:
    """`lag` imports its own module, no other command's, and neither Ray nor a Kafka client before it connects."""
    code = "from mirror_ray.cli.app import _load; _load('lag')"
    assert _imported(code) == []
    others = "'ray', 'mirror_ray.cli.bench', 'mirror_ray.cli.verify', 'mirror_ray.cli.up', 'mirror_ray.cli.takeover'"
    done = subprocess.run(
        [sys.executable, "-c", f"{code}; import sys; print({{{others}}} & sys.modules.keys())"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == "set()"


def test_ray_is_imported_without_what_no_command_uses() -> None:
    """And all of it is there when something of it is used."""
    ray = "from actors.connection import lighten_ray; lighten_ray(); import ray"
    assert _imported(ray) == []
    assert _imported(f"{ray}; import requests; requests.get; import yaml.nodes") == ["yaml", "requests"]
