"""The Ray actors: thin shells around ``mirror_ray``. Plain classes; their Ray options are in ``actors.spawn`` alone."""
