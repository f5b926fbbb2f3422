"""How does a study get from its question to its answer?"""
