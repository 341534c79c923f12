"""Builds the image: ``make image``. By Docker, or by buildah; on the named base, or on one of Debian's packages.

``--base NAME``: on that image. ``--again``: without any cache, and compared with the image that is here: exit 1 if it
is another one. What else is given goes to the tool.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path

from supply.image.registries import apt_options, registries, write
from supply.image.tools import IMAGE, ImageError, find_tool, read_recipe


def main(arguments: list[str]) -> int:
    """Build; returns the exit code."""
    parser = argparse.ArgumentParser(prog="make image", description=__doc__)
    parser.add_argument("--base")
    parser.add_argument("--again", action="store_true")
    options, of_the_tool = parser.parse_known_args(arguments)
    tool = find_tool()
    before = tool.described().digest if options.again else None
    begun_s = time.monotonic()
    # Open to root alone; what a build mounts of it is read by apt's own user, too.
    with tempfile.TemporaryDirectory(prefix="mirror-ray-registries-") as scratch:
        directory = Path(scratch) / "registries"
        directory.mkdir(mode=0o755)
        write(registries(os.environ, Path.home(), apt_options()), directory)
        uncached = ("--no-cache",) if options.again else ()
        base = tool.build(read_recipe(), options.base, directory, (*uncached, *of_the_tool))
    digest = tool.described().digest
    print(f"{IMAGE} by {tool.title} on {base}, in {time.monotonic() - begun_s:.0f} s: {digest}")
    if before not in {None, digest}:
        print(f"it is another one: the image that was here is {before}")
        return 1
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except ImageError as error:
        sys.exit(str(error))
