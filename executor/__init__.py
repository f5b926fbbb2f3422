"""Do it on hardware: the only package that imports torch."""
