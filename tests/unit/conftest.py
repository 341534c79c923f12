"""What tests of several rooms share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mirror_ray.records import kernel
from tests.support.kernels import NOT_BUILT, without_kernel


@pytest.fixture(params=["kernel", "reference"], scope="module")
def either(request: pytest.FixtureRequest) -> Iterator[None]:
    """Run a module's tests by the kernel, and again by the reference."""
    if request.param == "reference":
        with without_kernel():
            yield
    elif kernel.is_available():
        yield
    else:
        pytest.skip(NOT_BUILT)
