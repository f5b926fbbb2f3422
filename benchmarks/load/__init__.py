"""What does a service bear? An open-loop generator, and the processes that are asked."""
