"""How are the ranks of a run started, watched and ended? By one of the launchers that `launcher` finds."""
