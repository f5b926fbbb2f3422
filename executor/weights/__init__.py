"""How are the weights of all replicas kept equal, stepped and saved?"""
