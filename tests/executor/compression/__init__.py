"""Are gradients compressed as defined?"""
