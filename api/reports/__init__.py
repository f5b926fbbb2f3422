"""How is a plan shown to people? One page, online or as one file, with the answer first."""
