"""What may be tried for a question?"""

from pydantic import TypeAdapter

from api.computing.asked import Asked, read_calibrated
from api.computing.result import Result
from profiles import library
from tuner.options import options_of
from tuner.trials import Option

OPTIONS: TypeAdapter[tuple[Option, ...]] = TypeAdapter(tuple[Option, ...])


def options(asked: Asked) -> Result:
    """The options, fastest first; raises TunerError."""
    request, profile = read_calibrated(asked)
    return Result(OPTIONS.dump_json(options_of(request, library, profile=profile)))
