"""How a lease is divided: nothing that is sent in the last moment arrives after somebody else has begun."""

from __future__ import annotations

import pytest

from mirror_ray.model.lease_terms import DEFAULT_LEASE_MS, LeaseTerms


@pytest.mark.parametrize("lease_ms", [200, 1001, DEFAULT_LEASE_MS, 60_000])
def test_sending_and_the_kernel_fit_into_the_lease(lease_ms: int) -> None:
    """What is handed over at the end of the one time, and delivered at the end of the other, is before a takeover."""
    terms = LeaseTerms(lease_ms)
    latest_s = terms.sending_s + terms.kernel_ms / 1000
    assert latest_s <= lease_ms / 1000
    # Clocks and the kernel's timers are not exact.
    assert latest_s + 0.25 <= terms.takeover_s


def test_a_read_is_over_long_before_the_lease_is() -> None:
    """One that waits for something new must not cost the lease."""
    terms = LeaseTerms()
    assert terms.look_ms * 4 <= terms.sending_s * 1000
