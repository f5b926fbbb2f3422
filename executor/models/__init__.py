"""Which layers, losses and data are run?"""
