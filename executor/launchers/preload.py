"""What does the process have loaded that the ranks are forked from? Importing torch once serves them all."""

import numpy  # noqa: F401
import torch.nn  # noqa: F401

import executor.launchers.rank_process  # noqa: F401
from executor.launchers.processes import die_with_parent

die_with_parent()
