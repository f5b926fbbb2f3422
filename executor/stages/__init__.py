"""What does one replica of a stage compute, and which weights does it read?"""
