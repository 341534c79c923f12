"""Sample memory and files of a system under load for an hour, and say what grows.

Exit 0: every process is flat, and all that was produced is on the other side; 1: not so.
"""

from __future__ import annotations

import argparse
import datetime as dt
import os
import platform
import re
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Mapping
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from typing import IO

from mirror_ray import own_ray
from mirror_ray.lab.background import wait_until
from mirror_ray.lab.report_parts import machine_size
from mirror_ray.lab.soak.growth import Growth, growth
from mirror_ray.lab.soak.sampler import RaySampler, Samples
from mirror_ray.lab.soak.soak_report import SoakOutcome, soak_report
from mirror_ray.model.errors import MirrorError

_NAME = "soak"
_STARTS_WITHIN_S = 600.0
#: Until then the sampling stops: what ends is not measured.
_BEFORE_THE_END_S = 40.0
_ENDS_WITHIN_S = 600.0
_PAGES = ("/metrics", "/api/v1/status")
_PAGE = re.compile(r"https?://127\.0\.0\.1:\d+")
#: A process with fewer samples has ended, or has just begun.
_LEAST_SHARE = 0.5


def main() -> None:
    """Run it by the command line's options."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=60.0, help="how long is measured, after the warm-up")
    parser.add_argument("--warm-up", type=float, default=10.0, help="minutes before that")
    parser.add_argument("--rate", type=int, default=1000, help="records a second, on each cluster")
    parser.add_argument("--report", type=Path, help="write the report there, too")
    options = parser.parse_args()
    outcome = _run(options.minutes, options.warm_up, options.rate)
    text = soak_report(outcome)
    sys.stdout.write(text)
    if options.report:
        options.report.write_text(text)
    sys.exit(not outcome.holds or bool(outcome.growing))


def _run(minutes: float, warm_up_minutes: float, rate: int) -> SoakOutcome:
    if own_ray.find(_NAME) is not None:
        raise MirrorError(f"{_NAME} runs already on this machine: `mirror-ray down --name {_NAME}` ends it")
    seconds = 60 * (minutes + warm_up_minutes)
    demo = [sys.executable, "-m", "mirror_ray", "demo", "--name", _NAME, "--rate", str(rate), "--for", f"{seconds:.0f}"]
    with tempfile.TemporaryFile("w+") as output:
        process = subprocess.Popen(demo, stdout=output, stderr=output, text=True)  # noqa: S603 - mirror-ray itself
        try:
            page = _page(process, output)
            own = own_ray.find(_NAME)
            if own is None:
                raise MirrorError(f"the demo has no Ray of its own:\n{_text(output)}")
            with RaySampler(own, lambda: _look(page)) as sampler, suppress(subprocess.TimeoutExpired):
                # It ends within the measured time only where something is wrong.
                process.wait(seconds - _BEFORE_THE_END_S)
            process.wait(_ENDS_WITHIN_S)
        finally:
            process.terminate()
            process.wait(_ENDS_WITHIN_S)
        lines = _text(output).rstrip().splitlines()
    memory = _growths(sampler.memory, 60 * warm_up_minutes)
    counts = [count for at_s, count in sampler.counts if at_s > 60 * warm_up_minutes]
    return SoakOutcome(
        command="make soak" if minutes == 60 else f'make soak ARGS="--minutes {minutes:g}"',
        date=dt.datetime.now(dt.UTC).date().isoformat(),
        machine=_machine(),
        minutes=minutes,
        warm_up_minutes=warm_up_minutes,
        rate=rate,
        memory=memory,
        files=[each for each in _growths(sampler.files, 60 * warm_up_minutes) if each.last_mb >= 0.001],
        file_counts=(int(counts[0]), int(counts[-1])),
        copied="\n".join(f"    {line}" for line in lines[-3 if process.returncode == 0 else -40 :]),
        holds=process.returncode == 0,
    )


def _growths(samples: Mapping[str, Samples], from_s: float) -> list[Growth]:
    late = {name: [sample for sample in all_of_it if sample[0] > from_s] for name, all_of_it in samples.items()}
    most = max(map(len, late.values()))
    return [growth(name, each) for name, each in sorted(late.items()) if len(each) > _LEAST_SHARE * most]


def _page(demo: subprocess.Popen[str], output: IO[str]) -> str:
    def found() -> bool:
        if demo.poll() is not None:
            raise MirrorError(f"the demo has ended:\n{_text(output)}")
        return _PAGE.search(_text(output)) is not None

    wait_until(found, _STARTS_WITHIN_S, "the demo says where its page is", every_s=0.5)
    match = _PAGE.search(_text(output))
    return match[0] if match else ""


def _text(output: IO[str]) -> str:
    return os.pread(output.fileno(), 1 << 20, 0).decode(errors="replace")


def _look(page: str) -> None:
    for path in _PAGES:
        with suppress(OSError), urllib.request.urlopen(page + path, timeout=10) as answer:  # noqa: S310 - the demo's own
            answer.read()


def _machine() -> str:
    return (
        f"{machine_size()}, {platform.system()},"
        f" Python {platform.python_version()}, Ray {version('ray')}; brokers and producers on it, too"
    )


if __name__ == "__main__":
    main()
