"""Several Ray nodes on this machine, in two regions; nodes are lost, frozen and cut off while records flow.

As root, on Linux. At the end every record is compared. Exit 0: all is as it should be; 1: it is not.
"""

from __future__ import annotations

import argparse
import datetime as dt
import platform
import sys
import tempfile
import time
from contextlib import ExitStack
from importlib.metadata import version
from pathlib import Path

from mirror_ray.lab.ray_nodes.apart import stand_apart
from mirror_ray.lab.ray_nodes.faults_of_nodes import ALL
from mirror_ray.lab.ray_nodes.findings import NodesOutcome, nodes_report
from mirror_ray.lab.ray_nodes.stand import LAYOUT, Stand
from mirror_ray.lab.report_parts import machine_size
from mirror_ray.model.errors import MirrorError


def main() -> None:
    """Run it by the command line's options."""
    names = [fault.__name__ for fault in ALL]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("faults", nargs="*", metavar="FAULT", help=f"of {', '.join(names)}; all by default")
    parser.add_argument("--delay-ms", type=float, default=25.0, help="between the regions, in each direction")
    parser.add_argument("--report", type=Path, help="write the report there, too")
    parser.add_argument("--dir", type=Path, help="a new directory for data and logs, to be kept")
    options = parser.parse_args()
    unknown = set(options.faults) - set(names)
    if unknown:
        parser.error(f"no such fault: {', '.join(sorted(unknown))}; there are {', '.join(names)}")
    try:
        stand_apart("mirror_ray.lab.ray_nodes", sys.argv[1:])
        outcome = _run(options)
    except MirrorError as error:
        sys.exit(f"error: {error}")
    text = nodes_report(outcome)
    sys.stdout.write(text)
    if options.report:
        options.report.write_text(text)
    sys.exit(bool(outcome.problems))


def _run(options: argparse.Namespace) -> NodesOutcome:
    begin_s = time.monotonic()
    outcome = NodesOutcome(
        command=" ".join(["make ray-nodes", *([f'ARGS="{" ".join(options.faults)}"'] if options.faults else [])]),
        date=dt.datetime.now(dt.UTC).date().isoformat(),
        machine=_machine(),
        layout=LAYOUT,
        delay_ms=options.delay_ms,
    )
    with ExitStack() as stack:
        directory = options.dir or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="mirror-ray-nodes-")))
        directory.mkdir(parents=True, exist_ok=True)
        stand = Stand(directory.absolute(), stack, options.delay_ms / 1000, _say)
        try:
            for fault in ALL:
                if not options.faults or fault.__name__ in options.faults:
                    outcome.findings.append(fault(stand))
            outcome.topics = stand.finish()
        except MirrorError as error:
            # What was found before is worth its report.
            outcome.broken_off = str(error)
    outcome.duration_s = time.monotonic() - begin_s
    return outcome


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")


def _machine() -> str:
    return (
        f"everything on {machine_size()}, {platform.system()}"
        f" {platform.release()}, Python {platform.python_version()}, Ray {version('ray')}"
    )


if __name__ == "__main__":
    main()
