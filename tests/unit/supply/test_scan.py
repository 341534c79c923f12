"""Known faults are found in what we have, by the orders of versions of PyPI, Maven and Cargo."""

from __future__ import annotations

import re
from typing import Literal

import pytest

from supply.advisories import Advisory, findings, load
from supply.gather import gathered
from supply.parts import KERNEL, ROOT, SupplyPart, all_parts, of_crate, of_lock
from supply.scan import report
from supply.versions import is_before


def test_no_fault_is_known_that_is_not_argued_away() -> None:
    """`make scan`, within the tests: a version with a known fault does not get in, nor one of a tool."""
    known = load()
    tools = of_lock((ROOT / "requirements.lock").read_text())
    found = findings({*tools, *of_crate(ROOT / KERNEL, tests=True), *all_parts()}, known.advisories)
    assert [pair for pair in found if pair[0].brought_by not in known.accepted] == []


def test_the_list_says_of_when_it_is() -> None:
    """Each source with its day; each advisory with an id; none about what we don't have or accept without a reason."""
    known = load()
    assert known.sources
    assert all(re.fullmatch(r"20\d\d-\d\d-\d\d", source["date"]) for source in known.sources)
    assert all(advisory.ids and advisory.ranges for advisory in known.advisories)
    assert set(known.accepted) <= {part.brought_by for part in all_parts()}
    assert all(len(reason) > 40 for reason in known.accepted.values())


@pytest.mark.parametrize(
    ("version", "has_it"), [("3.4.1", True), ("3.9.1", True), ("3.9.2", False), ("4.0.0", True), ("4.3.0", False)]
)
def test_a_fault_is_found_by_its_ranges(version: str, has_it: bool) -> None:
    """kafka-clients 3.4.1, which Spark's connector names, was found by this."""
    advisory = Advisory("maven/org.apache.kafka:kafka-clients", ("CVE-0",), (("2.8.0", "3.9.2"), ("4.0.0", "4.0.2")))
    assert advisory.is_about(SupplyPart("maven", "org.apache.kafka", "kafka-clients", version)) is has_it
    assert not advisory.is_about(SupplyPart("maven", "org.else", "kafka-clients", version))
    assert not advisory.is_about(SupplyPart("pypi", "", "kafka-clients", version))
    assert advisory.is_about(SupplyPart("maven", "", "kafka-clients", version)) is has_it


@pytest.mark.parametrize(
    ("older", "newer", "ecosystem"),
    [
        ("3.14.3", "3.14.10", "pypi"),
        ("2.0rc1", "2.0", "pypi"),
        ("2.0-beta9", "2.0", "maven"),
        ("2.0-rc1", "2.0.1", "maven"),
        ("4.1.96.Final", "4.1.133", "maven"),
        ("1.1.10.5", "1.1.10.10", "maven"),
        ("2.9", "2.10", "maven"),
        ("9.4.60", "12.0.3", "maven"),
        ("2.12-alpha1", "2.12-beta1", "maven"),
        ("0.9.3", "0.10.0", "cargo"),
        ("0.0.0-0", "0.0.0", "cargo"),
        ("1.0.0-alpha.1", "1.0.0-alpha.beta", "cargo"),
        ("1.0.0-rc.9", "1.0.0-rc.10", "cargo"),
        ("2.1.2+zstd.1.5.8", "2.1.3+zstd.1.5.7", "cargo"),
    ],
)
def test_versions_are_in_their_order(older: str, newer: str, ecosystem: Literal["pypi", "maven", "cargo"]) -> None:
    """A candidate stands before its release, and ten behind nine."""
    assert is_before(older, newer, ecosystem)
    assert not is_before(newer, older, ecosystem)


@pytest.mark.parametrize(
    ("one", "other", "ecosystem"),
    [
        ("4.1.96.Final", "4.1.96", "maven"),
        ("2.0.0", "2", "maven"),
        ("1.0-ga", "1.0", "maven"),
        ("2.1.3+zstd.1.5.7", "2.1.3", "cargo"),
    ],
)
def test_the_same_version_in_two_forms(one: str, other: str, ecosystem: Literal["maven", "cargo"]) -> None:
    """They are taken for equal."""
    assert not is_before(one, other, ecosystem)
    assert not is_before(other, one, ecosystem)


def test_a_finding_is_open_until_it_is_argued_away() -> None:
    """The reason stands beside it, and the count says how many are open."""
    advisory = Advisory("maven/org.a:a", ("CVE-1", "GHSA-1"), (("", None),))
    parts = [SupplyPart("maven", "org.a", "a", "1", brought_by=package) for package in ("pyspark", "kafka-4.3.0")]
    lines, open_ones = report(parts, findings(parts, [advisory]), {"pyspark": "can't be changed"})
    assert open_ones == 1
    assert lines == [
        "OPEN      pkg:maven/org.a/a@1 in kafka-4.3.0: CVE-1, GHSA-1",
        "accepted  pkg:maven/org.a/a@1 in pyspark: CVE-1, GHSA-1",
        "accepted in pyspark: can't be changed",
        "2 packages, jars and crates, 2 findings, 1 of them open",
    ]


def test_a_database_is_taken_in_by_its_facts() -> None:
    """Ids and ranges of our packages; what was withdrawn, is another's, or is of commits, is left out."""
    events = [{"introduced": "0"}, {"fixed": "1.2"}, {"introduced": "2.0"}]
    of_ours = {"package": {"ecosystem": "PyPI", "name": "Ours"}, "ranges": [{"type": "ECOSYSTEM", "events": events}]}
    of_git = {"package": {"ecosystem": "PyPI", "name": "ours"}, "ranges": [{"type": "GIT", "events": events}]}
    other = {"package": {"ecosystem": "npm", "name": "ours"}, "ranges": [{"type": "ECOSYSTEM", "events": events}]}
    documents = iter(
        [
            {"id": "PYSEC-1", "aliases": ["CVE-1"], "details": "a text", "affected": [of_ours, of_git, other]},
            {"id": "PYSEC-2", "withdrawn": "2026-01-01", "affected": [of_ours]},
        ]
    )
    assert gathered(documents, {"pypi/ours"}, "a database") == [
        {
            "package": "pypi/ours",
            "ids": ["PYSEC-1", "CVE-1"],
            "ranges": [("", "1.2"), ("2.0", None)],
            "source": "a database",
        }
    ]


def test_of_advisories_about_crates_those_of_faults_are_taken() -> None:
    """RustSec also says which crates nobody maintains: their ranges are those of Cargo."""
    ranges = [{"type": "SEMVER", "events": [{"introduced": "0.0.0-0"}, {"fixed": "0.11.6"}]}]
    of_ours = {"package": {"ecosystem": "crates.io", "name": "ours"}, "ranges": ranges}
    documents = iter(
        {"id": f"RUSTSEC-{number}", "affected": [{**of_ours, "database_specific": {"informational": kind}}]}
        for number, kind in enumerate((None, "unsound", "unmaintained", "notice"))
    )
    found = gathered(documents, {"cargo/ours"}, "a database")
    assert [(entry["ids"], entry["ranges"]) for entry in found] == [
        (["RUSTSEC-0"], [("0.0.0-0", "0.11.6")]),
        (["RUSTSEC-1"], [("0.0.0-0", "0.11.6")]),
    ]
