"""Commands about this machine: clusters, jars, version."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Annotated

import typer

import mirror_ray
from mirror_ray.cli.options import FormatOption, OutputFormat
from mirror_ray.cli.output import emit, out, say

clusters = typer.Typer(
    no_args_is_help=True, add_completion=False, help="Two real Kafka clusters, A and B, on this machine."
)


@clusters.command()
def up(
    directory: Annotated[Path | None, typer.Option("--dir", help="Where their data and mm2.properties go.")] = None,
    brokers: Annotated[int, typer.Option(min=1, help="Brokers of each cluster.")] = 1,
    registry: Annotated[bool, typer.Option("--registry", help="A schema registry beside each cluster.")] = False,
) -> None:
    """Run clusters A and B in the foreground, until Ctrl-C or `clusters down`. Data is kept."""
    from mirror_ray.lab.devcluster import run_clusters

    run_clusters(directory, brokers, registry=registry, say=say)


@clusters.command()
def down() -> None:
    """Stop the clusters that another shell runs."""
    from mirror_ray.lab.devcluster import stop_clusters

    stop_clusters()
    say("the clusters are down")


def jars() -> None:
    """Fetch the jars of the brokers and of Spark with Maven, ahead of their first use; print where they are."""
    from mirror_ray.jars.maven import KAFKA, SPARK, ensure_jars

    for bundle in (KAFKA, SPARK):
        out().print(str(ensure_jars(bundle)), soft_wrap=True)


def show_version(output: FormatOption = OutputFormat.table) -> None:
    """Show the versions of mirror-ray and of what it is built on."""
    versions = {"mirror-ray": mirror_ray.__version__, "python": platform.python_version()}
    for package in ("ray", "confluent-kafka"):
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            versions[package] = "missing"

    def show() -> None:
        for name, value in versions.items():
            out().print(f"{name} {value}")

    emit(versions, output, show)
