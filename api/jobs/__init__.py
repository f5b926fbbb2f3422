"""What work is there for workers, and who does it?"""
