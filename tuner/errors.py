"""What can be wrong with a question to the tuner.

TunerError
├── RequestError             an option is missing, impossible or contradicts another
├── UnsupportedModelError    the model cannot be described from its configuration
├── UnsupportedOptionError   a sound option that is not modelled yet
├── TooLongError             a program has more operations than are simulated
├── CalibrationError         measurements do not say what is asked of them
├── ProtocolError            a worker speaks a version that is not understood
└── ScheduleError            a schedule cannot run that way, or a program is not a schedule
    ├── UnmatchedMessageError  a message is sent that nobody receives, or awaited that nobody sends
    └── DeadlockError          its steps wait for each other in a circle

What can go wrong in a call of the service: `tuner.client_errors`.
"""


class TunerError(Exception):
    """The question cannot be answered; the message says what is wrong, the numbers, and what to do."""


class RequestError(TunerError):
    """An option of the request is missing, impossible or contradicts another one."""


class UnsupportedModelError(TunerError):
    """The model cannot be described from its configuration; the message says why and what to do."""


class UnsupportedOptionError(TunerError):
    """The option is understood but what it asks for is not modelled."""


class TooLongError(TunerError):
    """A program has more operations than are simulated; the message says how many of each."""


class CalibrationError(TunerError):
    """Measurements cannot be calibrated on, or a calibration says nothing of what is asked."""


class ProtocolError(TunerError):
    """A worker and the service are of releases too far apart; the message says which to upgrade."""


class ScheduleError(TunerError):
    """A schedule cannot run with that depth, micro-batches or option, or a program breaks its rules."""


class UnmatchedMessageError(ScheduleError):
    """A SEND has no RECV, a RECV no SEND, or an operation waits for a value that nothing sends."""


class DeadlockError(ScheduleError):
    """Steps wait for each other in a circle; the message names where each rank is blocked."""
