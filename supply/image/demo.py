"""Runs what is in the image, as the manifests have it: ``make image-demo``. ``--to FILE`` writes the report.

The image is unpacked into ``build/image`` and entered (``deploy/image/enter.sh``): a read-only root, user 1000, no
capability, no network. There `inside.sh` starts mirror-ray, asks for its health, stops it, and runs its demo for two
minutes, with Spark beside it.
"""

from __future__ import annotations

import argparse
import os
import platform
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

from supply.image.report import Trial, markdown
from supply.image.rootfs import unpack
from supply.image.tools import ImageError, find_tool
from supply.parts import ROOT

_DIRECTORY = ROOT / "build/image"
_INSIDE = Path(__file__).with_name("inside.sh")


def entered(rootfs: Path, command: list[str]) -> str:
    """Run a command in an image's root file system; shows what it prints, and returns it.

    Raises:
        ImageError: It failed.
    """
    lines: list[str] = []
    enter = [ROOT / "deploy/image/enter.sh", rootfs, rootfs.with_name("environment"), *command]
    with subprocess.Popen(list(map(str, enter)), stdout=subprocess.PIPE, text=True) as running:  # noqa: S603 - ours
        assert running.stdout is not None  # noqa: S101 - asked for above
        for line in running.stdout:
            print(line, end="", flush=True)
            lines.append(line)
    if running.returncode != 0:
        raise ImageError(f"what is in the image ended with {running.returncode}: it says why, above")
    return "".join(lines)


def compressed_bytes(rootfs: Path) -> int:
    """How large the files are as a registry keeps them: in an archive, by gzip."""
    archived = ["tar", "--create", "--directory", str(rootfs), "."]
    total = 0
    with (
        subprocess.Popen(archived, stdout=subprocess.PIPE) as tar,  # noqa: S603 - ours
        subprocess.Popen(["gzip"], stdin=tar.stdout, stdout=subprocess.PIPE) as gzip,  # noqa: S607 - the machine's own
    ):
        assert gzip.stdout is not None  # noqa: S101 - asked for above
        while block := gzip.stdout.read(1 << 20):
            total += len(block)
    return total


def sizes(rootfs: Path) -> dict[str, int]:
    """Bytes of each file that is no link, by its path within the image; what is linked twice counts once."""
    found: dict[str, int] = {}
    inodes: set[int] = set()
    for directory, _, names in os.walk(rootfs):
        for name in names:
            path = Path(directory, name)
            status = path.lstat()
            if not path.is_symlink() and status.st_ino not in inodes:
                inodes.add(status.st_ino)
                found[f"/{path.relative_to(rootfs)}"] = status.st_size
    return found


def main(arguments: list[str]) -> None:
    """Unpack, run, measure; writes the report where it is asked for."""
    parser = argparse.ArgumentParser(prog="make image-demo", description=__doc__)
    parser.add_argument("--to", type=Path)
    target = parser.parse_args(arguments).to
    tool = find_tool()
    image = tool.described()
    unpack(tool, _DIRECTORY)
    rootfs = _DIRECTORY / "rootfs"
    output = entered(rootfs, [*image.entrypoint, "bash", "-c", _INSIDE.read_text(), "inside.sh", *image.health])
    print("== the same, done: every check above held", flush=True)
    if target is not None:
        trial = Trial(
            date=datetime.now(UTC).date().isoformat(),
            tool=tool.title,
            image=image,
            output=output,
            sizes=sizes(rootfs),
            compressed_bytes=compressed_bytes(rootfs),
            cores=os.cpu_count() or 0,
            memory_bytes=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
            kernel=platform.release(),
        )
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(markdown(trial))
        print(f"{target} is written")


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except ImageError as error:
        sys.exit(str(error))
