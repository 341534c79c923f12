"""Which versions of Ray this version of mirror-ray works with: `make ray-versions`."""
