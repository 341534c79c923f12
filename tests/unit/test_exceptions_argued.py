"""Every exception from ruff's S rules (bandit's) stands in one line with its reason; none holds for all the code."""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path

_ROOT = Path(__file__).parents[2]
_EXCEPTION = re.compile(r"# (?:ruff: )?noqa: ((?:[A-Z]+\d+(?:, ?)?)+)(.*)")


def test_none_is_for_all_the_code() -> None:
    """A rule is left out for the benchmarks or tests alone, by its number, and its line says why."""
    text = (_ROOT / "pyproject.toml").read_text()
    lint = tomllib.loads(text)["tool"]["ruff"]["lint"]
    assert [each for each in lint["ignore"] if re.fullmatch(r"S\d*", each)] == []
    left_out = {each for rules in lint["per-file-ignores"].values() for each in rules if re.fullmatch(r"S\d*", each)}
    assert {where for where, rules in lint["per-file-ignores"].items() if left_out & set(rules)} == {
        *("mirror_ray/lab/benchmarks/**", "tests/**")
    }
    for rule in left_out:
        assert re.search(rf'^    "{rule}",  # \w', text, re.MULTILINE), rule


def test_each_line_says_why() -> None:
    """``# noqa: S603 - why``."""
    listed = subprocess.run(
        ["git", "-C", _ROOT, "ls-files", "*.py"],  # noqa: S607 - the machine's own
        capture_output=True,
        text=True,
        check=False,
    ).stdout
    files = [_ROOT / each for each in listed.split()] or sorted((_ROOT / "mirror_ray").rglob("*.py"))
    unargued = [
        f"{path.relative_to(_ROOT)}:{number}"
        for path in files
        if path.is_file() and path != Path(__file__)
        for number, line in enumerate(path.read_text().splitlines(), start=1)
        if (found := _EXCEPTION.search(line))
        and re.search(r"\bS\d{3}\b", found[1])
        and not re.match(r" - \w", found[2])
    ]
    assert unargued == []
