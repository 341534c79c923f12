"""The image is of this project's versions, gets the files that it copies, and asks for its health where the gateway is.

`make lint` has hadolint read the Dockerfile.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

import mirror_ray
from mirror_ray.config.gateway import GATEWAY_PORT, GatewaySettings
from mirror_ray.web.looking import routes

_ROOT = Path(__file__).parents[3]
_DOCKERFILE = _ROOT / "deploy/image/Dockerfile"


@pytest.fixture(scope="module")
def instructions() -> list[str]:
    """The Dockerfile's instructions, one line each, without comments."""
    lines = [each for each in _DOCKERFILE.read_text().splitlines() if not each.startswith("#")]
    return re.sub(r"\s*\\\n\s*", " ", "\n".join(lines)).splitlines()


def _locked(package: str) -> str:
    found = re.search(rf"^{package}==(\S+)", (_ROOT / "requirements.lock").read_text(), re.MULTILINE)
    assert found is not None
    return found[1]


def test_its_versions_are_the_projects(instructions: list[str]) -> None:
    """Of Python, uv and mirror-ray; and KubeRay is told the Ray that is in it."""
    project = (_ROOT / "pyproject.toml").read_text()
    bases = {each.split()[1] for each in instructions if each.startswith("FROM python")}
    assert len(bases) == 1
    assert bases.pop().startswith("python:3.11.")
    assert 'requires-python = ">=3.11,<3.12"' in project
    uv = re.search(r"^UV_VERSION := (\S+)$", (_ROOT / "Makefile").read_text(), re.MULTILINE)
    assert uv is not None
    assert any(f"uv=={uv[1]} " in each for each in instructions)
    assert any(f'image.version="{mirror_ray.__version__}"' in each for each in instructions)
    cluster = yaml.safe_load((_ROOT / "ray-cluster.yaml").read_text())
    assert cluster["spec"]["rayVersion"] == _locked("ray")


def test_what_it_copies_is_there_and_let_in(instructions: list[str]) -> None:
    """Everything else is kept out of the build, above all what may hold secrets."""
    copied = {name for each in instructions if re.match(r"COPY (?!--from)", each) for name in each.split()[1:-1]}
    ignored = (_DOCKERFILE.parent / "Dockerfile.dockerignore").read_text().splitlines()
    let_in = {each[1:] for each in ignored if each.startswith("!")}
    assert "*" in ignored
    assert copied == let_in
    assert all((_ROOT / name).exists() for name in copied)


def test_it_runs_as_the_user_of_the_pods(instructions: list[str]) -> None:
    """A number, so that Kubernetes can tell that it is not root."""
    cluster = yaml.safe_load((_ROOT / "ray-cluster.yaml").read_text())
    pod = cluster["spec"]["headGroupSpec"]["template"]["spec"]["securityContext"]
    assert f"USER {pod['runAsUser']}:{pod['runAsGroup']}" in instructions


def test_its_health_is_asked_for_where_the_gateway_is(instructions: list[str]) -> None:
    """At the port that a gateway has when the configuration names none, and an address that it serves."""
    [check] = [each for each in instructions if each.startswith("HEALTHCHECK")]
    asked = re.search(r"http://127\.0\.0\.1:(\d+)(/\w+)", check)
    assert asked is not None
    assert int(asked[1]) == GATEWAY_PORT
    assert GatewaySettings().host == "127.0.0.1"
    nobody: Any = None
    assert asked[2] in {each.path for each in routes(nobody, nobody, nobody, version="", most_partitions=0)}
