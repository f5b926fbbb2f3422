"""Are messages carried whole, to the right place, and let go in time?"""
