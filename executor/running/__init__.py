"""How does a rank run its lowered programs, mini-batch after mini-batch?"""
