"""What can go wrong when a program runs on hardware?

ExecutorError
├── ConfigurationError   found before anything is launched: an option, a model or a machine that does not fit
├── ModelError           the user's model cannot be run as stages, or its code raised
├── BoundaryError        tensors at a cut are not those that were announced: shape, dtype or number
├── TransportError       a message could not be sent or received: a peer is gone, or the transport was misused
├── CheckpointError      a saved state is missing, damaged, or of another model
└── TrialError           a launched trial has no result: a rank failed, froze or ran out of memory
"""


class ExecutorError(Exception):
    """A run cannot start or go on; the message says what happened, the numbers, and what to do."""


class ConfigurationError(ExecutorError):
    """Known before launch: an option, a model or the machine does not fit what was asked for."""


class ModelError(ExecutorError):
    """The model cannot be run as stages, or its code raised; the message names stage and operation."""


class BoundaryError(ExecutorError):
    """Tensors at a cut differ from those announced; the message has both shapes and dtypes."""


class TransportError(ExecutorError):
    """A message could not be sent or received; the message names it and the peer."""


class CheckpointError(ExecutorError):
    """A saved state is missing, damaged, or of another model; the message names the file and the key."""


class TrialError(ExecutorError):
    """A launched trial gave no result; the message names the rank, its operation and the reason."""
