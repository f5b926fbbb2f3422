"""What can go wrong in a command, and with which exit code?

Exit codes: 0 done, 1 ran and the answer is negative, 2 bad input, 3 could not be answered.

CommandError
├── InputError          an option, a path or a document is wrong (2)
└── UnavailableError    nothing is wrong with the question, but it cannot be answered here (3)
"""

DONE = 0
NEGATIVE = 1
BAD_INPUT = 2
NOT_ANSWERED = 3

_LONGEST_MESSAGE = 2_000


class CommandError(Exception):
    """A command cannot do what was asked; the message says what is wrong, the numbers, and what to do."""

    exit_code = NOT_ANSWERED


class InputError(CommandError):
    """An option, a path or a document is wrong."""

    exit_code = BAD_INPUT


class UnavailableError(CommandError):
    """Nothing is wrong with the question, but it cannot be answered here and now."""


def exit_code(error: Exception) -> int | None:
    """The exit code of an expected error, None for a defect."""
    from api.errors import BackupError, BindError, ServiceError, SettingsError
    from profiles.errors import DocumentError
    from tuner.client_errors import UnreachableError
    from tuner.errors import TunerError

    if isinstance(error, CommandError):
        return error.exit_code
    if isinstance(error, UnreachableError):
        return NOT_ANSWERED
    if isinstance(error, DocumentError | TunerError | SettingsError | BindError | BackupError):
        return BAD_INPUT
    return NOT_ANSWERED if isinstance(error, ServiceError) else None


def visible(text: str) -> str:
    """Text for a terminal: what others wrote must not move its cursor or change its title."""
    return "".join(sign if sign.isprintable() or sign in "\n\t" else "?" for sign in text)


def told(message: object) -> str:
    """The line that reports an error, without the megabytes that a bad argument can hold."""
    text = visible(str(message))
    if len(text) > _LONGEST_MESSAGE:
        text = f"{text[:_LONGEST_MESSAGE]}... ({len(text):,} characters)"
    return f"error: {text}"
