"""What is in a model, found out on tensors without data?"""
