"""Of a page of Spark's error the line that helps."""

from __future__ import annotations

import pytest

from mirror_ray.spark.verification import failure_text

_CALL = "An error occurred while calling z:org.apache.spark.api.python.PythonRDD.collectAndServe.\n"
_ABORTED = ": org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 2.0 failed 4 times"
_AT = "\n\tat org.apache.spark.api.python.BasePythonRunner$ReaderIterator.handlePythonException(PythonRunner.scala:572)"

_PYTHON = "Traceback (most recent call last):\n  in main\n    process()\nModuleNotFoundError: No module named 'x'\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"{_CALL}{_ABORTED}: PythonException: {_PYTHON}{_AT}", "ModuleNotFoundError: No module named 'x'"),
        (
            f"{_CALL}{_ABORTED}: Python worker exited unexpectedly (crashed){_AT}\nCaused by: java.io.EOFException",
            f"{_ABORTED}: Python worker exited unexpectedly (crashed)",
        ),
        (f"{_CALL}{_AT}\nCaused by: java.io.IOException: no room{_AT}", "Caused by: java.io.IOException: no room"),
        ("gone", "gone"),
        ("", "it does not say why"),
    ],
)
def test_the_line_that_says_why(text: str, expected: str) -> None:
    """Python's own, else why the job was given up."""
    assert failure_text(text) == expected
