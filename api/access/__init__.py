"""Who may do what? Keys, where requests may come from, and who made one."""
