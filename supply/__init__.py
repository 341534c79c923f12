"""The parts of mirror-ray: the bill of materials of a release, and advisories about them."""
