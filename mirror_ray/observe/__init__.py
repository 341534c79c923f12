"""What can be seen of a running system: status snapshots and the event log. Plain values, no I/O."""
