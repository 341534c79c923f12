"""Copy records with other versions of Ray, each in a virtual environment of its own, and print which work.

Twice with each: in a Ray of mirror-ray's own, and in one that `ray start --head` made. Packages come from the index
that uv is configured for. Exit 0: every version that is let in works, in both ways.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from importlib.metadata import requires, version
from pathlib import Path
from typing import Final

import psutil
from confluent_kafka import Producer

from mirror_ray.lab.copy_check import check_copy
from mirror_ray.lab.devcluster import DevCluster
from mirror_ray.lab.devcluster.clusters import running_clusters, write_mm2_properties
from mirror_ray.lab.devcluster.ports import free_port
from mirror_ray.lab.kafka_client import client_config, create_topic
from mirror_ray.lab.report_parts import document, markdown_table

_ROOT: Final = Path(__file__).parents[3]
_VERSIONS: Final = ("2.40.0", "2.44.1", "2.48.0", "2.51.2", "2.53.0", "2.54.1", "2.56.1", "2.58.1", "2.59.0", "2.60.0")
_RECORDS: Final = 20_000
_WITHIN_S: Final = 420.0
_HASH: Final = re.compile(r" \\\n +--hash=\S+")


@dataclass(frozen=True, slots=True, kw_only=True)
class RayVersionResult:
    """What came of one version; empty: it works, else why it does not."""

    ray: str
    own: str
    given: str


def main() -> None:
    """Try the versions of the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("versions", nargs="*", default=list(_VERSIONS), metavar="VERSION")
    parser.add_argument("--environments", type=Path, default=_ROOT / "build/ray-versions", help="where they are kept")
    options = parser.parse_args()
    results = []
    with running_clusters(DevCluster("A"), DevCluster("B")) as clusters:
        for wanted in options.versions:
            result = _try_version(wanted, options.environments / wanted, clusters)
            sys.stderr.write(f"{result}\n")
            results.append(result)
    sys.stdout.write(_report(results))
    sys.exit(any(each.own or each.given for each in results if _is_let_in(each.ray)))


def _is_let_in(ray: str) -> bool:
    """Whether mirror-ray may be installed with it: its requirement is `ray[default]>=2.60,<2.61`, or the like."""
    text = next(text for text in requires("mirror-ray") or [] if text.startswith("ray["))
    bounds = dict(re.findall(r"(>=|<)([\d.]+)", text))
    return _numbers(bounds[">="]) <= _numbers(ray) < _numbers(bounds["<"])


def _numbers(text: str) -> list[int]:
    return [int(number) for number in text.split(".")]


def _report(results: Sequence[RayVersionResult]) -> str:
    rows = [(each.ray, each.own or "works", each.given or "works") for each in results]
    heads = ("Ray", "of its own", "of `ray start --head`")
    return document([markdown_table(heads, rows), f"mirror-ray {version('mirror-ray')}, {sys.version.split()[0]}"])


def _try_version(wanted: str, environment: Path, clusters: tuple[DevCluster, ...]) -> RayVersionResult:
    problem = _install(wanted, environment)
    if problem:
        return RayVersionResult(ray=wanted, own=problem, given=problem)
    return RayVersionResult(
        ray=wanted,
        own=_copies(environment, clusters, f"own-{wanted}", {}),
        given=_copies_in_a_given_one(environment, clusters, f"given-{wanted}"),
    )


def _install(wanted: str, environment: Path) -> str:
    """An environment of the locked versions but for Ray's; why it can't be had, or nothing."""
    if (environment / ".ready").exists():
        return ""
    lock = _HASH.sub("", (_ROOT / "requirements-runtime.lock").read_text())
    lines = [line for line in lock.splitlines() if line[:1].isalnum() and not line.startswith("ray==")]
    environment.parent.mkdir(parents=True, exist_ok=True)
    (environment.parent / f"{wanted}.txt").write_text("\n".join([*lines, f"ray=={wanted}"]))
    uv = shutil.which("uv", path=str(Path(sys.executable).parent)) or "uv"
    python = str(environment / "bin/python")
    for command in (
        [uv, "venv", "--clear", "--python", sys.executable, str(environment)],
        [uv, "pip", "install", "--python", python, "--no-deps", "-r", str(environment.parent / f"{wanted}.txt")],
        [uv, "pip", "install", "--python", python, "--no-deps", "setuptools<81"],
    ):
        done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - uv, with our lists
        if done.returncode != 0:
            return f"not installed: {done.stderr.strip().splitlines()[-1]}"
    (environment / ".ready").touch()
    return ""


def _copies_in_a_given_one(environment: Path, clusters: tuple[DevCluster, ...], topic: str) -> str:
    # Ray's sockets are below it, and have room for a short name only.
    with ExitStack() as stack:
        directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="rv-", ignore_cleanup_errors=True))
        address = f"127.0.0.1:{free_port()}"
        start = ["ray", "start", "--head", "--node-ip-address", "127.0.0.1", "--port", address.rpartition(":")[2]]
        start += ["--num-cpus", "8", "--object-store-memory", "80000000", "--include-dashboard", "false"]
        start += ["--temp-dir", directory, "--disable-usage-stats"]
        stack.callback(_end_all_of, directory)
        problem = _run(environment, start, {})
        return problem or _copies(environment, clusters, topic, {"RAY_ADDRESS": address})


def _copies(environment: Path, clusters: tuple[DevCluster, ...], topic: str, variables: Mapping[str, str]) -> str:
    """Why records are not copied as they should be, or nothing."""
    source, target = clusters
    create_topic(source, topic, 4)
    producer = Producer(client_config(source))
    for number in range(_RECORDS):
        producer.produce(topic, f"{topic} {number}".encode(), partition=number % 4)
        producer.poll(0)
    producer.flush()
    with tempfile.TemporaryDirectory(prefix="mirror-ray-versions-") as directory:
        more = f"B->A.enabled = false\ntopics = {topic}\ngateway.enabled = false\nemit.heartbeats.enabled = false\n"
        properties = write_mm2_properties(Path(directory), clusters)
        properties.write_text(properties.read_text().replace("B->A.enabled = true\n", "") + more)
        up = [
            "python",
            "-m",
            "mirror_ray",
            "up",
            str(properties),
            "--name",
            topic.replace(".", "-"),
            "--until-caught-up",
        ]
        problem = _run(environment, up, variables)
    if problem:
        return problem
    result = check_copy(source, topic, target, f"A.{topic}", 4, finished=True)
    return "" if result.equal and result.copied == _RECORDS else f"the copy differs: {result}"


def _run(environment: Path, command: Sequence[str], variables: Mapping[str, str]) -> str:
    """Run a program of the environment; why it failed, or nothing."""
    inherited = {key: value for key, value in os.environ.items() if key != "RAY_ADDRESS"}
    path = f"{environment / 'bin'}{os.pathsep}{os.environ['PATH']}"
    more = {"PYTHONPATH": str(_ROOT), "PATH": path, "RAY_AUTH_MODE": "token", **variables}
    try:
        done = subprocess.run(  # noqa: S603 - Ray and mirror-ray
            [str(environment / "bin" / command[0]), *command[1:]],
            env={**inherited, **more},
            capture_output=True,
            text=True,
            timeout=_WITHIN_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"{command[-1]} did not end within {_WITHIN_S:.0f} s"
    lines = [line for line in (done.stderr or done.stdout).splitlines() if line.strip()]
    return "" if done.returncode == 0 else lines[-1].strip()[:300] if lines else f"exit {done.returncode}"


def _end_all_of(directory: str) -> None:
    """End the processes that name this directory, and their children."""
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if any(directory in word for word in process.cmdline()):
                for each in (*process.children(recursive=True), process):
                    with suppress(psutil.NoSuchProcess):
                        each.kill()


if __name__ == "__main__":
    main()
