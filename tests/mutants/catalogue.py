"""All mutants."""

from __future__ import annotations

from tests.mutants import faults, kernel, lease, merging, offsets, preserving, replication, sending, source, state

MUTANTS = (
    *replication.MUTANTS,
    *sending.MUTANTS,
    *source.MUTANTS,
    *lease.MUTANTS,
    *merging.MUTANTS,
    *preserving.MUTANTS,
    *kernel.MUTANTS,
    *state.MUTANTS,
    *faults.MUTANTS,
    *offsets.MUTANTS,
)
