"""All mutants."""

from __future__ import annotations

from tests.mutants import copying, lease, offsets, remedy, sending, source, state

MUTANTS = (
    *copying.MUTANTS,
    *sending.MUTANTS,
    *source.MUTANTS,
    *lease.MUTANTS,
    *state.MUTANTS,
    *remedy.MUTANTS,
    *offsets.MUTANTS,
)
