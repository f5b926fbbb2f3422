"""How does this machine do the jobs of a service? One at a time, each in processes of its own."""
