"""What mirror-ray is made of: the bill of materials of a release, and what is known to be wrong with its parts."""
