"""Where is computed what takes a processor? In processes of its own, beside reading."""
