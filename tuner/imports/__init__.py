"""What can be learnt from what users have: an argument list of Megatron-LM, a trace, a table of times?"""
