"""How are gradients made smaller before replicas exchange them, and what is kept for the next step?"""
