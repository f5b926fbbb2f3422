"""What can be wrong with an export?

TunerError
└── ExportError
    ├── UnknownFormatError      no exporter has that name
    ├── NothingChosenError      the plan chose nothing, so there is nothing to launch
    └── NotExpressibleError     the target cannot run what the plan chose
"""

from tuner.errors import TunerError


class ExportError(TunerError):
    """The plan cannot be written in that format; the message says why and what to do."""


class UnknownFormatError(ExportError):
    """No exporter has that name; the message lists those there are."""


class NothingChosenError(ExportError):
    """The plan chose nothing, so there is nothing to launch."""


class NotExpressibleError(ExportError):
    """The target has no words for what the plan chose."""
