"""All mutants."""

from __future__ import annotations

from tests.mutants import faults, lease, offsets, replication, sending, source, state

MUTANTS = (
    *replication.MUTANTS,
    *sending.MUTANTS,
    *source.MUTANTS,
    *lease.MUTANTS,
    *state.MUTANTS,
    *faults.MUTANTS,
    *offsets.MUTANTS,
)
