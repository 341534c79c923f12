"""Consumer groups: their offsets synced, translated in bulk, and what they had committed in the past."""
