"""What a build of the image is told: its recipe, and how this machine's clients reach their registries."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from supply.image import tools
from supply.image.registries import MOUNTED, Registries, of_mirrors, registries, write
from supply.image.tools import ImageError, build_arguments, described, find_tool, read_recipe, settled
from supply.parts import ROOT

_APT = """\
Acquire "";
Acquire::Check-Valid-Until "false";
Acquire::https::Proxy "http://proxy:3128";
Acquire::IndexTargets::deb::DEP-11::MetaKey "Components";
APT::Install-Recommends "false";
"""


def _told(found: Registries, directory: Path, script: str, **variables: str) -> str:
    """What a shell of the build prints, whose registries are mounted at ``directory``."""
    write(found, directory)
    environment = directory / "environment"
    environment.write_text(environment.read_text().replace(MOUNTED, str(directory)))
    ran = [shutil.which("bash") or "", "-euc", script]
    variables |= {"BASH_ENV": str(environment)}
    return subprocess.run(ran, env=variables, capture_output=True, text=True, check=True).stdout


def test_clients_are_told_what_they_are_told_here(tmp_path: Path) -> None:
    """A proxy, a mirror, an authority: by variables; a file that one names goes along. No other variable does."""
    authority = tmp_path / "ca.pem"
    authority.write_text("certificates")
    here = {"https_proxy": "http://proxy:3128", "PIP_CERT": str(authority), "UV_DEFAULT_INDEX": "https://mirror/a b"}
    found = registries({**here, "AWS_SECRET_ACCESS_KEY": "secret", "HOME": "/root"}, tmp_path, "")
    (tmp_path / "mounted").mkdir()
    script = 'echo "$https_proxy $UV_DEFAULT_INDEX"; cat "$PIP_CERT"'
    assert _told(found, tmp_path / "mounted", script, PATH="/usr/bin:/bin") == (
        "http://proxy:3128 https://mirror/a b\ncertificates"
    )
    assert not re.search(r"secret|HOME", found.environment)


def test_a_directory_is_not_named_that_a_build_has_not(tmp_path: Path) -> None:
    """Its files would be looked for where there are others, or none."""
    assert "SSL_CERT_FILE" not in registries({"SSL_CERT_FILE": str(tmp_path)}, tmp_path, "").environment


def test_files_in_the_home_directory_are_where_a_client_looks(tmp_path: Path) -> None:
    """Maven's settings where there is a Maven; in a stage without one, none of it is left in the image."""
    home, programs, mounted = (tmp_path / name for name in ("home", "programs", "mounted"))
    for directory in (home / ".m2", programs, mounted):
        directory.mkdir(parents=True)
    (home / ".m2/settings.xml").write_text("<settings/>")
    for program in ("cat", "install"):
        (programs / program).symlink_to(shutil.which(program) or "")
    found = registries({}, home, "")
    look = 'cat "$HOME/.m2/settings.xml" 2>/dev/null || echo none'
    variables = {"HOME": str(tmp_path / "there"), "PATH": str(programs)}
    assert _told(found, mounted, look, **variables) == "none\n"
    (programs / "mvn").symlink_to("/bin/true")
    assert _told(found, mounted, look, **variables) == "<settings/>"


def test_apt_is_told_how_to_reach_its_mirror(tmp_path: Path) -> None:
    """And nothing else of this machine's configuration."""
    wanted = ['Acquire::Check-Valid-Until "false";', 'Acquire::https::Proxy "http://proxy:3128";']
    assert of_mirrors(_APT) == wanted
    found = registries({}, tmp_path, _APT)
    assert found.apt.splitlines() == wanted
    assert f"export APT_CONFIG={MOUNTED}/apt.conf" in found.environment


def test_java_trusts_what_it_trusts_here(tmp_path: Path) -> None:
    """Maven in the build has the store of this machine's Java, and the options that it has here."""
    store = tmp_path / "lib/security/cacerts"
    store.parent.mkdir(parents=True)
    store.write_text("")
    found = registries({"JAVA_HOME": str(tmp_path), "MAVEN_OPTS": "-Xmx1g"}, tmp_path, "")
    assert re.search(rf"MAVEN_OPTS='-Xmx1g -Djavax.net.ssl.trustStore={MOUNTED}/\d-cacerts'", found.environment)


def test_the_dockerfile_mounts_them_wherever_a_client_runs() -> None:
    """A step without them would fail behind a proxy; none is in the last stage's variables."""
    text = re.sub(r"\s*\\\n\s*", " ", (ROOT / "deploy/image/Dockerfile").read_text())
    mount = f"--mount=type=bind,from=registries,target={MOUNTED} "
    runs = [line for line in text.splitlines() if line.startswith("RUN ")]
    assert runs
    assert all(mount in line for line in runs)
    stages = text.split("\nFROM ")[1:]
    asking = [stage for stage in stages if "RUN " in stage]
    assert len(asking) == len(stages) - 1
    assert all(f"ARG BASH_ENV={MOUNTED}/environment" in stage for stage in asking)
    assert "ENV BASH_ENV" not in text


def test_a_build_is_of_the_recipe(tmp_path: Path) -> None:
    """Base and time are the Dockerfile's, unless another base is given."""
    recipe = read_recipe("ARG PYTHON=python:3.11@sha256:00\nARG SOURCE_DATE_EPOCH=12\nARG OTHER\n")
    assert (recipe.base, recipe.epoch_s) == ("python:3.11@sha256:00", 12)
    assert "SOURCE_DATE_EPOCH=12" in build_arguments(recipe, None, tmp_path)
    assert not [argument for argument in build_arguments(recipe, None, tmp_path) if argument.startswith("PYTHON=")]
    assert "PYTHON=mine" in build_arguments(recipe, "mine", tmp_path)
    assert read_recipe().epoch_s > 0


def test_an_image_says_how_it_is_entered() -> None:
    """By what Docker has of its configuration."""
    config = {"Env": ["A=b"], "Entrypoint": ["tini", "--"], "Healthcheck": {"Test": ["CMD", "sh", "-c", "true"]}}
    image = described("sha256:00", config, 3)
    assert (image.environment, image.entrypoint, image.health) == (["A=b"], ["tini", "--"], ["sh", "-c", "true"])


def test_an_image_does_not_say_in_which_container_it_was_made() -> None:
    """That is another one each time; what it runs and is made of stays."""
    one, other = (
        {
            "container": name,
            "parent": name,
            "config": {"Hostname": name, "Env": ["A=b"]},
            "history": [f"COPY dir:{name}"],
        }
        for name in ("1" * 64, "2" * 64)
    )
    assert settled(json.dumps(one).encode()) == settled(json.dumps(other).encode())
    assert json.loads(settled(json.dumps(one).encode())) == {"config": {"Env": ["A=b"]}, "history": ["COPY dir"]}


def test_a_machine_without_a_tool_is_told_which_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The error names buildah and its package."""
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ImageError, match="apt-get install buildah mmdebstrap"):
        find_tool()


def test_docker_is_preferred_where_it_answers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A client without its daemon builds nothing."""
    monkeypatch.setenv("PATH", str(tmp_path))
    for name, ending in {"docker": "exit 1", "buildah": "exit 0"}.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{ending}\n")
        (tmp_path / name).chmod(0o755)
    assert isinstance(find_tool(), tools.Buildah)
    (tmp_path / "docker").write_text("#!/bin/sh\nexit 0\n")
    assert isinstance(find_tool(), tools.Docker)
