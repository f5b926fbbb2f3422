"""What does the service know? Documents that were sent, and those that are shipped."""
