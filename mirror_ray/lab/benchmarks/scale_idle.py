"""What a partition costs a replicator that has nothing to copy: processor time a second, between stub brokers.

::

    .venv/bin/python -m mirror_ray.lab.benchmarks.scale_idle [--partitions 100,1000,5000] [--seconds 20]

The replicator's core in a process of its own, without Ray; it reports twice a second, as to a coordinator.
"""

from __future__ import annotations

from mirror_ray.lab.bench.core_cost import measure_idle_cost
from mirror_ray.lab.benchmarks.harness import parse_arguments, show


def main() -> None:
    options = parse_arguments(
        __doc__,
        partitions=("100,1000,5000", "sizes, each measured by itself"),
        seconds=(20.0, "for which it is measured"),
    )
    show("idle partitions", "of a core", "us a second")
    for partitions in map(int, options.partitions.split(",")):
        share = measure_idle_cost(partitions, options.seconds)
        show(f"{partitions:,}", f"{share:.2%}", f"{1e6 * share / partitions:.1f}")


if __name__ == "__main__":
    main()
