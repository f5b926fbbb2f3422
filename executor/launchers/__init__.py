"""How are the ranks of a run started, watched and ended? On this machine: `executor.launchers.local`."""
