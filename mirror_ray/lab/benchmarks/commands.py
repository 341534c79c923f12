"""What it costs to ask a running system: processor time and wall-clock time of commands, each a process of its own.

::

    make bench-commands
    .venv/bin/python -m mirror_ray.lab.benchmarks.commands [--rounds 5]

A system with one flow, in a Ray of its own, runs meanwhile. The medians are printed.
"""

from __future__ import annotations

from statistics import median

from mirror_ray.lab.benchmarks.harness import (
    CommandCost,
    cluster_pair,
    flow_settings,
    parse_arguments,
    run_command,
    running_system,
    show,
)

_NAME = "bench-commands"
COMMANDS = ("--help", "lag", "status", "groups")


def main() -> None:
    options = parse_arguments(__doc__, rounds=(5, "of each command, in turns"))
    measured: dict[str, list[CommandCost]] = {command: [] for command in COMMANDS}
    with cluster_pair("512m") as pair, running_system(flow_settings(pair), _NAME, replicators=1):
        for _ in range(options.rounds):
            for command, rounds in measured.items():
                rounds.append(run_command(command, *([] if command.startswith("-") else ["--name", _NAME])))
    for command, rounds in measured.items():
        cpu_s, seconds = (median(values) for values in zip(*((one.cpu_s, one.seconds) for one in rounds), strict=True))
        show(f"mirror-ray {command}", f"{cpu_s:.2f} s CPU", f"{seconds:.2f} s", width=28)


if __name__ == "__main__":
    main()
