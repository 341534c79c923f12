"""The image is of this project's versions, gets the files that it copies, and asks for its health where the gateway is.

`make lint` has hadolint read the Dockerfile.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

import hatch_build
import mirror_ray
from mirror_ray.config.gateway import GATEWAY_PORT, GatewaySettings
from mirror_ray.web.queries import routes
from tests.support.locks import pins

_ROOT = Path(__file__).parents[3]
_DOCKERFILE = _ROOT / "deploy/image/Dockerfile"


@pytest.fixture(scope="module")
def instructions() -> list[str]:
    """The Dockerfile's instructions, one line each, without comments."""
    lines = [line for line in _DOCKERFILE.read_text().splitlines() if not line.startswith("#")]
    return re.sub(r"\s*\\\n\s*", " ", "\n".join(lines)).splitlines()


def _python_images(instructions: list[str]) -> list[str]:
    return [line.removeprefix("ARG PYTHON=") for line in instructions if line.startswith("ARG PYTHON=")]


def _locked(package: str) -> str:
    found = re.search(rf"^{package}==(\S+)", (_ROOT / "requirements.lock").read_text(), re.MULTILINE)
    assert found is not None
    return found[1]


def test_its_versions_are_the_projects(instructions: list[str]) -> None:
    """Of Python and mirror-ray; and KubeRay is told the Ray that is in it."""
    project = (_ROOT / "pyproject.toml").read_text()
    [base] = _python_images(instructions)
    assert base.startswith("python:3.11.")
    assert 'requires-python = ">=3.11,<3.12"' in project
    assert any(f'image.version="{mirror_ray.__version__}"' in instruction for instruction in instructions)
    cluster = yaml.safe_load((_ROOT / "ray-cluster.yaml").read_text())
    assert cluster["spec"]["rayVersion"] == _locked("ray")


def test_every_base_is_named_by_its_digest(instructions: list[str]) -> None:
    """A tag can be given to another image."""
    bases = {instruction.split()[1] for instruction in instructions if instruction.startswith("FROM ")}
    stages = {instruction.split()[3] for instruction in instructions if re.match(r"FROM \S+ AS ", instruction)}
    assert bases - stages == {"${PYTHON}", "scratch"}
    assert all(re.search(r"@sha256:[0-9a-f]{64}$", image) for image in _python_images(instructions))


def test_nothing_is_installed_without_a_hash(instructions: list[str]) -> None:
    """By pip and uv, each from a lock of hashes; the project itself from the wheel that was made of it."""
    commands = [
        part for instruction in instructions if instruction.startswith("RUN") for part in instruction.split(" && ")
    ]
    installs = [command for command in commands if re.search(r"\bpip install\b", command)]
    assert len(installs) == 3
    for install in installs:
        of_a_lock = re.search(r"--require-hashes -r (\S+)$", install)
        if of_a_lock is None:
            assert re.search(r"--offline --no-deps /tmp/wheel/\*\.whl$", install)
        else:
            assert all("--hash=sha256:" in pinned for pinned in pins((_ROOT / of_a_lock[1]).read_text()).values())


def test_it_always_has_the_record_kernel(instructions: list[str]) -> None:
    """Built of its sources with what the lock has, by a compiler that stays behind; without it there is no image."""
    stages = re.split(r"\n(?=FROM )", "\n".join(instructions))
    [build] = [stage for stage in stages if "cargo" in stage]
    assert build.startswith("FROM ${PYTHON} AS build\n")
    assert "COPY kernel kernel" in build
    assert hatch_build.OFF_VARIABLE not in build
    asked = " && /opt/mirror-ray/bin/python -I -c 'from mirror_ray.records import _kernel'"
    assert build.splitlines()[-1].endswith(asked)
    crates = tomllib.loads((_ROOT / "kernel/Cargo.lock").read_text())["package"]
    assert [crate["name"] for crate in crates if "checksum" not in crate] == ["mirror-ray-kernel"]
    ignored = (_DOCKERFILE.parent / "Dockerfile.dockerignore").read_text().splitlines()
    assert {"**/*.so", "kernel/target"} <= set(ignored[ignored.index("!kernel") :])


@pytest.mark.parametrize("part", ["requirements-runtime.lock", "requirements-build.lock"])
def test_parts_of_the_lock_are_as_the_whole(part: str) -> None:
    """`make lock` writes all three: what is tested is what the image has."""
    whole, pinned = (pins((_ROOT / name).read_text()) for name in ("requirements.lock", part))
    assert pinned
    assert pinned.items() <= whole.items()


def test_the_image_has_what_runs_and_no_more() -> None:
    """Every dependency of the project, and neither tests' nor linters'."""
    project = tomllib.loads((_ROOT / "pyproject.toml").read_text())
    runtime = set(pins((_ROOT / "requirements-runtime.lock").read_text()))
    names = {re.split(r"[\[<>=~!;]", dependency)[0].lower() for dependency in project["project"]["dependencies"]}
    assert names <= runtime
    assert not {"hatchling", "hypothesis", "mypy", "pytest", "ruff", "uv"} & runtime


def test_what_it_copies_is_there_and_let_in(instructions: list[str]) -> None:
    """Everything else is kept out of the build, above all what may hold secrets."""
    copied = {
        name
        for instruction in instructions
        if re.match(r"COPY (?!--from)", instruction)
        for name in instruction.split()[1:-1]
    }
    ignored = (_DOCKERFILE.parent / "Dockerfile.dockerignore").read_text().splitlines()
    let_in = {line[1:] for line in ignored if line.startswith("!")}
    assert "*" in ignored
    assert copied == let_in
    assert all((_ROOT / name).exists() for name in copied)


def test_it_runs_as_the_user_of_the_pods(instructions: list[str]) -> None:
    """A number, so that Kubernetes can tell that it is not root."""
    cluster = yaml.safe_load((_ROOT / "ray-cluster.yaml").read_text())
    pod = cluster["spec"]["headGroupSpec"]["template"]["spec"]["securityContext"]
    assert f"USER {pod['runAsUser']}:{pod['runAsGroup']}" in instructions


def test_jars_are_found_where_they_are_put(instructions: list[str]) -> None:
    """By the variable, for a root that is read-only; nobody but root can change them."""
    [jars] = [found[1] for line in instructions if (found := re.search(r"MIRROR_RAY_JARS=(\S+)", line))]
    assert f"COPY --from=jars {jars} {jars}" in instructions
    assert any(f"MIRROR_RAY_CACHE={jars} /opt/mirror-ray/bin/mirror-ray jars" in line for line in instructions)


def test_its_health_is_asked_for_where_the_gateway_is(instructions: list[str]) -> None:
    """At the port that a gateway has when the configuration names none, and an address that it serves."""
    [check] = [instruction for instruction in instructions if instruction.startswith("HEALTHCHECK")]
    asked = {(scheme, int(port), path) for scheme, port, path in re.findall(r"(\w+)://127\.0\.0\.1:(\d+)(/\w+)", check)}
    assert asked == {(scheme, GATEWAY_PORT, "/readyz") for scheme in ("http", "https")}
    assert GatewaySettings().host == "127.0.0.1"
    nobody: Any = None
    assert "/readyz" in {route.path for route in routes(nobody, nobody, nobody, nobody, version="", most_partitions=0)}
