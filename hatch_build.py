"""Builds the record kernel (``kernel/``, in Rust): into the wheel, by hatchling; beside its sources, by the Makefile.

Without a Cargo that is new enough there is a wheel all the same, without the kernel: docs/decisions has the reasons.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

from hatchling.builders.config import BuilderConfig
from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from packaging.tags import sys_tags

ROOT = Path(__file__).parent
KERNEL = ROOT / "kernel"
#: Where Python looks for it.
MODULE = "mirror_ray/records/_kernel.abi3.so"
#: Set to anything, it has the kernel left out, as it is left aside when mirror-ray runs (mirror_ray/records/kernel.py).
OFF_VARIABLE = "MIRROR_RAY_NO_KERNEL"
REMEDY = (
    "Debian 12: apt-get install cargo-web. Debian 13, Ubuntu: apt-get install rustup gcc; rustup default stable. "
    "macOS: brew install rust. Then do the same again"
)


class KernelError(Exception):
    """The kernel can't be built; the text says why, and how to go on."""


class KernelHook(BuildHookInterface[BuilderConfig]):
    """Puts the kernel into a wheel, and gives the wheel the tag of what it is then made for."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Build it; an editable installation has it beside its sources."""
        lacking = what_is_lacking()
        if lacking:
            self.app.display_warning(lacking)
            return
        try:
            built = compile_kernel()
        except KernelError as error:
            self.app.abort(str(error))
        if version == "editable":
            put_in_place(built)
            return
        build_data["force_include"][str(built)] = MODULE
        build_data["pure_python"] = False
        build_data["tag"] = f"cp311-abi3-{_platform()}"


def what_is_lacking() -> str | None:
    """Why there will be no kernel, with what it costs and the remedy; None where it can be built."""
    loss = "mirror-ray is built without its record kernel, and will not merge small batches"
    if os.environ.get(OFF_VARIABLE):
        return f"{loss}: {OFF_VARIABLE} is set."
    needed = _version(tomllib.loads((KERNEL / "Cargo.toml").read_text())["package"]["rust-version"])
    wanted = f"it needs Cargo {'.'.join(map(str, needed))} or newer"
    found = _cargo_version()
    if found is None:
        return f"{loss}: {wanted}, and there is none. {REMEDY}."
    if _version(found) < needed:
        return f"{loss}: {wanted}, and this is {found}. {REMEDY}."
    return None


def compile_kernel() -> Path:
    """Have Cargo build what has changed, in the versions of the lock; returns the library.

    Raises:
        KernelError: Cargo does not do it.
    """
    command = ["build", "--release", "--locked", "--features", "python", "--message-format", "json-render-diagnostics"]
    ran = _cargo(*command)
    if ran.returncode:
        raise KernelError(
            "The record kernel could not be built: what Cargo says is above. It fetches crates, compiles C: it needs "
            f"a registry and a C compiler. {OFF_VARIABLE}=1 builds mirror-ray without it: small batches are not merged."
        )
    messages = [json.loads(line) for line in ran.stdout.splitlines()]
    files = [
        file
        for message in messages
        if message.get("target", {}).get("name") == "_kernel"
        for file in message["filenames"]
    ]
    return next(path for path in map(Path, files) if path.suffix in (".so", ".dylib"))


def put_in_place(built: Path) -> None:
    """Beside the sources that import it; in one step, for a process may have the former one loaded."""
    fresh = ROOT / f"{MODULE}.new"
    shutil.copyfile(built, fresh)
    fresh.replace(ROOT / MODULE)


def main() -> None:
    """What the Makefile calls: where the kernel can't be built, a former one goes, for it may fit nothing any more."""
    lacking = what_is_lacking()
    if lacking:
        print(lacking, file=sys.stderr)
        (ROOT / MODULE).unlink(missing_ok=True)
        return
    try:
        put_in_place(compile_kernel())
    except KernelError as error:
        sys.exit(str(error))


def _cargo_version() -> str | None:
    if shutil.which("cargo") is None:
        return None
    matched = re.match(r"cargo (\d+\.\d+\.\d+)", _cargo("--version").stdout)
    return matched[1] if matched else None


def _cargo(*arguments: str) -> subprocess.CompletedProcess[str]:
    """In the crate's folder: its ``.cargo`` counts there."""
    command = ["cargo", *arguments]
    return subprocess.run(  # noqa: S603 - the one of whoever builds
        command, cwd=KERNEL, stdout=subprocess.PIPE, text=True, check=False
    )


def _version(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split(".")))


def _platform() -> str:
    """As hatchling names it: the machine's own, none of the many that a wheel must be checked for."""
    return next(tag.platform for tag in sys_tags() if tag.platform.startswith(("linux", "macosx")))


if __name__ == "__main__":
    main()
