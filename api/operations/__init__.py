"""How does the service do? What it logs, counts and measures, and whether it can answer."""
