"""What is said of a broker that does not start."""

from __future__ import annotations

from pathlib import Path

import pytest

from mirror_ray.lab.devcluster.broker import Broker
from mirror_ray.model.errors import MirrorError


def test_errors_of_its_log_are_shown_however_much_comes_behind_them(tmp_path: Path) -> None:
    """The end of the log alone did not say why a broker had ended."""
    broker = Broker(node_id=1, port=1, directory=tmp_path, properties={})
    lines = ["[12:00:00,000] ERROR the disk is full", *(f"[12:00:01,000] INFO step {step}." for step in range(40))]
    broker.log_path.write_text("\n".join(lines))
    with pytest.raises(MirrorError, match="ended while it started") as error:
        broker.wait_started(0)
    assert str(error.value).splitlines()[1:] == [lines[0], *lines[-30:]]
