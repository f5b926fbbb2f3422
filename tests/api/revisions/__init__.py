"""Databases as earlier releases left them: a backup for each revision, which the newest release must read."""
