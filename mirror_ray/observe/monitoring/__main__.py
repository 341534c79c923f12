"""Write the files."""

from __future__ import annotations

from pathlib import Path

from mirror_ray.observe.monitoring.files import files

for name, text in files().items():
    path = Path(__file__).parents[3] / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
