"""How does one configuration do when it is really run?"""
