"""How are ranks run on a Ray cluster? A placement group has a bundle and an actor for each."""
