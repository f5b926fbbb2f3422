"""How are configurations of a request tried on real hardware until the best is known?"""
