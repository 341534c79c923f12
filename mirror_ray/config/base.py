"""What all settings have in common."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Settings(BaseModel):
    """Base of all settings: immutable, and a misspelt key is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid")
