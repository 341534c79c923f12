"""All mutants."""

from __future__ import annotations

from tests.mutants import (
    faults,
    kernel,
    lease,
    merging,
    offsets,
    preserving,
    replication,
    reversing,
    schemas,
    sending,
    source,
    state,
)

MUTANTS = (
    *replication.MUTANTS,
    *sending.MUTANTS,
    *source.MUTANTS,
    *lease.MUTANTS,
    *merging.MUTANTS,
    *preserving.MUTANTS,
    *reversing.MUTANTS,
    *schemas.MUTANTS,
    *kernel.MUTANTS,
    *state.MUTANTS,
    *faults.MUTANTS,
    *offsets.MUTANTS,
)
