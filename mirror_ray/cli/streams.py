"""The process's stdout and stderr: no text and no kind of stream causes a traceback."""

from __future__ import annotations

import errno
import io
import os
import sys

from mirror_ray.model.errors import MirrorError

#: What a shell shows for a process that SIGPIPE has ended.
BROKEN_PIPE_CODE = 141


class OutputStream(io.TextIOWrapper):
    """A standard stream that escapes characters which its encoding lacks, and handles failed writes.

    If the reader of a pipe has ended, the process ends quietly. If the disk is full, that is an error for data
    (``is_data``); messages are dropped.
    """

    def __init__(self, stream: io.TextIOWrapper, *, is_data: bool) -> None:
        super().__init__(
            stream.buffer,
            encoding=stream.encoding,
            errors="backslashreplace",
            line_buffering=stream.line_buffering or not is_data,
        )
        self._is_data = is_data
        # Without a reference it would be collected, and close the buffer.
        self._under = stream

    def write(self, text: str) -> int:
        """Write as ``TextIOBase`` does.

        Raises:
            MirrorError: The data can't be written.
            SystemExit: The reader of the pipe has ended.
        """
        try:
            return super().write(text)
        except OSError as error:
            self._fail(error)
            return len(text)

    def flush(self) -> None:
        """Flush as ``TextIOBase`` does; raises what `write` raises."""
        try:
            super().flush()
        except OSError as error:
            self._fail(error)

    def _fail(self, error: OSError) -> None:
        # Python flushes the buffer again when the process ends.
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, self.fileno())
        os.close(nowhere)
        if error.errno == errno.EPIPE:
            raise SystemExit(BROKEN_PIPE_CODE) from None
        if self._is_data:
            raise MirrorError(f"the output can't be written: {error.strerror}") from None


def open_streams() -> None:
    """Give this process streams that accept any text; one that it was started without (``>&-``) discards it."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            # The lowest free number is taken: this one. Otherwise a later file or connection would get the messages.
            os.open(os.devnull, os.O_RDWR)
    if sys.stdin is None:
        sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stdout = OutputStream(_of(sys.stdout, 1), is_data=True)
    sys.stderr = OutputStream(_of(sys.stderr, 2), is_data=False)


def _of(stream: object, number: int) -> io.TextIOWrapper:
    if isinstance(stream, io.TextIOWrapper):
        return stream
    return open(number, "w", encoding="utf-8", closefd=False)
