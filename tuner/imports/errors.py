"""What can be wrong with something that is imported?

TunerError
└── ImportedError     it does not say what is needed, or says what is not modelled
"""

from tuner.errors import TunerError


class ImportedError(TunerError):
    """What is imported does not say what is needed; the message says what, and how to give it."""
