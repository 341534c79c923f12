"""Unpacks the image that is built: ``make image-rootfs DIR=...`` makes ``DIR/rootfs``, and ``DIR/environment``.

The latter has the image's variables, a line NAME=VALUE each, as ``deploy/image/enter.sh`` takes them.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from supply.image.tools import ImageError, ImageTool, find_tool


def unpack(tool: ImageTool, directory: Path) -> None:
    """Make a directory's two parts anew.

    Raises:
        ImageError: It is not root who asks: files would lose their owners; or there is no image.
    """
    if os.geteuid() != 0:
        raise ImageError("an image's files have owners, which root alone can give them: run the same by sudo")
    described = tool.described()
    shutil.rmtree(directory / "rootfs", ignore_errors=True)
    (directory / "rootfs").mkdir(parents=True)
    tool.unpack(directory / "rootfs")
    (directory / "environment").write_text("".join(f"{line}\n" for line in described.environment))


if __name__ == "__main__":
    try:
        unpack(find_tool(), Path(sys.argv[1]))
    except ImageError as error:
        sys.exit(str(error))
