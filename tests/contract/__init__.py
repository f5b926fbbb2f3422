"""What must not change under users: names of addresses, parameters, keys. Adding is free, removing is not."""
