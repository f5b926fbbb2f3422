"""How do several training jobs take turns on the same ranks, one computing while another synchronises?"""
