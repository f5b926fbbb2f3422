"""Is what users bring read as what it says?"""
