"""What an image has is found in the locks, the lists of jars, and the packages that bring jars."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from mirror_ray.jars.maven import KAFKA, SPARK
from supply import parts
from supply.parts import KERNEL, ROOT, SupplyPart, all_parts, of_bundle, of_crate, of_lock


def test_a_lock_has_what_its_markers_let_into_the_image() -> None:
    """A package for another system is not in it."""
    lock = (
        "aiohttp==3.14.5 \\\n    --hash=sha256:00 \\\n    --hash=sha256:11\n"
        "cffi==2.1.1 ; platform_python_implementation != 'PyPy' \\\n    --hash=sha256:22\n"
        "colorama==0.4.6 ; sys_platform == 'win32' \\\n    --hash=sha256:33\n"
    )
    assert of_lock(lock) == [SupplyPart("pypi", "", "aiohttp", "3.14.5"), SupplyPart("pypi", "", "cffi", "2.1.1")]


@pytest.mark.parametrize(
    ("bundle", "purl"),
    [
        (KAFKA, "pkg:maven/org.apache.kafka/kafka_2.13@4.3.0"),
        (SPARK, "pkg:maven/org.apache.spark/spark-sql-kafka-0-10_2.12@3.5.7"),
        (KAFKA, "pkg:maven/org.javassist/javassist@3.30.2-GA"),
    ],
)
def test_jars_of_a_bundle_are_named_as_maven_does(bundle: str, purl: str) -> None:
    """With their group, and the checksum by which they are fetched."""
    [part] = [part for part in of_bundle(bundle) if part.purl == purl]
    assert len(part.sha256) == 64
    assert part.brought_by == bundle


def test_a_jar_in_a_package_says_its_group_or_has_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the file that Maven leaves in a jar: not every one has it."""
    for name, inside in {"a-1.0.jar": "META-INF/maven/org.a/a/pom.properties", "b-2.0.1.Final.jar": "b"}.items():
        with zipfile.ZipFile(tmp_path / name, "w") as jar:
            jar.writestr(inside, "")
    (tmp_path / "jars").symlink_to(tmp_path)
    monkeypatch.setattr("importlib.resources.files", lambda _: tmp_path)
    assert [part.purl for part in parts.of_package("brings")] == ["pkg:maven/org.a/a@1.0", "pkg:generic/b@2.0.1.Final"]


def test_crates_are_those_that_build_the_kernel(tmp_path: Path) -> None:
    """And those that these need; what its tests need besides when that is asked for."""
    (tmp_path / "Cargo.toml").write_text('[dependencies]\nzstd = "1"\n[dev-dependencies]\nproptest = "1"\n')
    needs = {"zstd": '"sys 1.0.0"', "proptest": '"sys 2.0.0", "zstd"', "sys 1": "", "sys 2": ""}
    (tmp_path / "Cargo.lock").write_text(
        '[[package]]\nname = "own"\nversion = "1.0.0"\ndependencies = ["proptest", "zstd"]\n'
        + "".join(
            f'[[package]]\nname = "{name.partition(" ")[0]}"\nversion = "{name.partition(" ")[2] or 3}.0.0"\n'
            f'source = "a registry"\nchecksum = "{"ab" * 32}"\ndependencies = [{of}]\n'
            for name, of in needs.items()
        )
    )
    built = [part.purl for part in of_crate(tmp_path)]
    assert built == ["pkg:cargo/sys@1.0.0", "pkg:cargo/zstd@3.0.0"]
    tested = [part.purl for part in of_crate(tmp_path, tests=True)]
    assert tested == ["pkg:cargo/proptest@3.0.0", "pkg:cargo/sys@1.0.0", "pkg:cargo/sys@2.0.0", "pkg:cargo/zstd@3.0.0"]


def test_a_crate_is_named_as_its_registry_does() -> None:
    """With its checksum; a plus in a version would be a space in an address."""
    [part] = [part for part in of_crate(ROOT / KERNEL) if part.name == "zstd-sys"]
    assert part.purl.startswith("pkg:cargo/zstd-sys@")
    assert "%2Bzstd." in part.purl
    assert len(part.sha256) == 64


def test_nothing_is_left_out() -> None:
    """Packages, both bundles, what pyspark and raydp bring, and the kernel's crates; none without a version."""
    every = all_parts()
    assert {part.brought_by for part in every} == {"", KAFKA, SPARK, "pyspark", "raydp", KERNEL}
    assert [part for part in every if not part.version] == []
    assert {"ray", "pyspark", "confluent-kafka"} <= {part.name for part in every}
    assert {"pyo3", "zstd-sys", "lz4_flex"} <= {part.name for part in every}
    assert not {"pytest", "mypy", "proptest"} & {part.name for part in every}
