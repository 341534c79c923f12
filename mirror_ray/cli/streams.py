"""The process's stdout and stderr: whatever they are, and whatever is written to them, there is no traceback."""

from __future__ import annotations

import errno
import io
import os
import sys

from mirror_ray.model.errors import MirrorError

#: What a shell shows for a process that SIGPIPE has ended.
BROKEN_PIPE_CODE = 141


class OutputStream(io.TextIOWrapper):
    """A standard stream that shows what its encoding lacks as escapes, and ends well when nothing more can be written.

    The other end of a pipe is gone: the process ends, quietly. The disk is full: of data (``is_data``) that is an
    error, talk is dropped.
    """

    def __init__(self, stream: io.TextIOWrapper, *, is_data: bool) -> None:
        super().__init__(
            stream.buffer,
            encoding=stream.encoding,
            errors="backslashreplace",
            line_buffering=stream.line_buffering or not is_data,
        )
        self._is_data = is_data
        # Would close the buffer when nobody has it any more.
        self._under = stream

    def write(self, text: str) -> int:
        """As ``TextIOBase`` does.

        Raises:
            MirrorError: The data can't be written.
            SystemExit: Nobody reads any more.
        """
        try:
            return super().write(text)
        except OSError as error:
            self._fail(error)
            return len(text)

    def flush(self) -> None:
        """As ``TextIOBase`` does; raises what `write` does."""
        try:
            super().flush()
        except OSError as error:
            self._fail(error)

    def _fail(self, error: OSError) -> None:
        # What is in the buffer is written once more when the process ends.
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, self.fileno())
        os.close(nowhere)
        if error.errno == errno.EPIPE:
            raise SystemExit(BROKEN_PIPE_CODE) from None
        if self._is_data:
            raise MirrorError(f"the output can't be written: {error.strerror}") from None


def open_streams() -> None:
    """Give this process streams that bear everything; one that it was started without (``>&-``) leads nowhere."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            # The lowest number that is free is taken: this one. Else a file or a connection would get it, and the talk.
            os.open(os.devnull, os.O_RDWR)
    if sys.stdin is None:
        sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stdout = OutputStream(_of(sys.stdout, 1), is_data=True)
    sys.stderr = OutputStream(_of(sys.stderr, 2), is_data=False)


def _of(stream: object, number: int) -> io.TextIOWrapper:
    if isinstance(stream, io.TextIOWrapper):
        return stream
    return open(number, "w", encoding="utf-8", closefd=False)
