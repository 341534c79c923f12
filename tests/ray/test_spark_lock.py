"""Two commands that want Spark in one Ray: the second waits, and says for whom; a killed one leaves nothing behind."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest
import ray
from ray.util.placement_group import remove_placement_group

from mirror_ray.model.errors import MirrorError
from mirror_ray.spark import lock
from mirror_ray.spark.lock import reserve
from tests.support.processes import kill_process

_BUNDLES = [{"CPU": 1.0}]
#: Not that of the product: tests of Spark have it in this Ray for as long as they run.
_NAME = "spark of this test"
_HOLDER = """
import time
from actors.connection import connect
connect("anything", {address!r})
from mirror_ray.spark import lock
lock._NAME = {name!r}
lock.reserve([{{"CPU": 1.0}}], "report A->B", print)
print("has it", flush=True)
time.sleep(600)
"""


@pytest.fixture
def holder(ray_session: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[subprocess.Popen[str]]:
    """Another process that has Spark in this Ray."""
    monkeypatch.setattr(lock, "_NAME", _NAME)
    code = _HOLDER.format(address=ray.get_runtime_context().gcs_address, name=_NAME)
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "has it\n"
            yield process
        finally:
            process.kill()


def test_the_second_waits_until_the_first_is_gone(holder: subprocess.Popen[str]) -> None:
    """It names command, user, process and time once, gives up in the end, and goes on when the first was killed."""
    lines: list[str] = []
    with pytest.raises(MirrorError, match=rf"report A->B of .*process {holder.pid}, since .*give the command again"):
        reserve(_BUNDLES, "verify A->B", lines.append, most_wait_s=1.2)
    (line,) = lines
    assert f"process {holder.pid}" in line
    assert "report A->B" in line
    kill_process(holder.pid)
    room = reserve(_BUNDLES, "verify A->B", lines.append, most_wait_s=60.0)
    remove_placement_group(room)
    remove_placement_group(reserve(_BUNDLES, "translate A->B", lines.append, most_wait_s=10.0))
