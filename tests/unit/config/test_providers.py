"""Config providers."""

from __future__ import annotations

from pathlib import Path

import pytest

from mirror_ray.config.providers import ConfigProvider, build_providers, declared_providers, resolve

_PACKAGE = "org.apache.kafka.common.config.provider."


def _declare(
    name: str, class_name: str, environ: dict[str, str] | None = None, **params: str
) -> dict[str, ConfigProvider]:
    problems: list[str] = []
    properties = {"config.providers": name, f"config.providers.{name}.class": _PACKAGE + class_name}
    properties |= {f"config.providers.{name}.param.{key.replace('_', '.')}": value for key, value in params.items()}
    specs = declared_providers(properties, problems)
    assert not problems
    return build_providers(specs, environ or {})


def test_file_provider_reads_a_key(tmp_path: Path) -> None:
    """Several references may stand in one value."""
    secrets = tmp_path / "secrets.properties"
    secrets.write_text("user = ü\npassword = p:}w\n", encoding="utf-8")
    providers = _declare("file", "FileConfigProvider")
    assert resolve(f"a ${{file:{secrets}:user}}/${{file:{secrets}:password}} b", providers) == "a ü/p:}w b"


def test_directory_provider_reads_a_file(tmp_path: Path) -> None:
    """The content is the value; a path out of the directory is refused."""
    (tmp_path / "password").write_text("secret")
    providers = _declare("dir", "DirectoryConfigProvider")
    assert resolve(f"${{dir:{tmp_path}:password}}", providers) == "secret"
    with pytest.raises(LookupError, match="not the name of a file"):
        resolve(f"${{dir:{tmp_path}:../password}}", providers)


@pytest.mark.parametrize("reference", ["${env:PW}", "${env::PW}"])
def test_environment_provider(reference: str) -> None:
    """Both spellings mean the variable."""
    assert resolve(reference, _declare("env", "EnvVarConfigProvider", {"PW": "${env:X}"})) == "${env:X}"


def test_what_is_not_allowed_is_refused(tmp_path: Path) -> None:
    """allowed.paths and allowlist.pattern hold."""
    (tmp_path / "in").mkdir()
    (tmp_path / "out.properties").write_text("k=v")
    providers = _declare("file", "FileConfigProvider", allowed_paths=str(tmp_path / "in"))
    with pytest.raises(LookupError, match=r"allowed\.paths"):
        resolve(f"${{file:{tmp_path}/in/../out.properties:k}}", providers)
    providers = _declare("env", "EnvVarConfigProvider", {"PW": "1"}, allowlist_pattern="KAFKA_.*")
    with pytest.raises(LookupError, match=r"allowlist\.pattern"):
        resolve("${env:PW}", providers)


@pytest.mark.parametrize(
    ("reference", "says"),
    [("${vault:/a:b}", "'vault'; declared are: file"), ("${file:/no/such:b}", "/no/such can't be read")],
)
def test_missing_values_are_named(reference: str, says: str) -> None:
    """An undeclared provider and a missing file are told by name."""
    with pytest.raises(LookupError, match=says):
        resolve(reference, _declare("file", "FileConfigProvider"))


def test_mistakes_in_the_declaration_are_named() -> None:
    """A Java class of one's own, a missing class, a bad pattern."""
    problems: list[str] = []
    properties = {
        "config.providers": "a, b, c",
        "config.providers.a.class": "com.example.Vault",
        "config.providers.c.class": f"{_PACKAGE}EnvVarConfigProvider",
        "config.providers.c.param.allowlist.pattern": "(",
    }
    assert declared_providers(properties, problems) == {}
    assert [problem.partition(":")[0] for problem in problems] == [
        "config.providers.a.class",
        "config.providers.b.class",
        "config.providers.c.param.allowlist.pattern",
    ]
