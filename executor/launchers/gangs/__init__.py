"""How are ranks run in places of a cluster, one rank in each, which share neither memory nor a clock?"""
