"""The record kernel, and its Python reference in its place."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from mirror_ray.records import kernel

NOT_BUILT = "the record kernel (kernel/) is not built"
needs_kernel = pytest.mark.skipif(not kernel.is_available(), reason=NOT_BUILT)


@contextmanager
def without_kernel() -> Iterator[None]:
    """Have the reference do all."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kernel, "_native", None)
        yield
