"""How long do layers and links take on this machine?"""
