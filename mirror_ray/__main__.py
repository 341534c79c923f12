"""``python -m mirror_ray`` is ``mirror-ray``."""

from __future__ import annotations

from mirror_ray.cli import main

if __name__ == "__main__":
    main()
