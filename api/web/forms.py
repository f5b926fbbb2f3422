"""What did a form of a page send? A few short fields, as browsers send them without a script."""

from urllib.parse import parse_qs

from fastapi import Request

from api.web.problems import MalformedBodyProblem, TooLargeProblem, WrongMediaTypeProblem

_LONGEST = 10_000
_KIND = "application/x-www-form-urlencoded"


async def read_form(request: Request) -> dict[str, str]:
    """The first value of each field; raises a Problem for what is no form, or a long one."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind not in {"", _KIND}:
        raise WrongMediaTypeProblem(f"the body is declared as {kind[:80]!r}: a form of this page is {_KIND}")
    raw = b""
    async for part in request.stream():
        raw += part
        if len(raw) > _LONGEST:
            raise TooLargeProblem(f"the form has more than {_LONGEST:,} bytes")
    try:
        fields = parse_qs(raw.decode("utf-8"), keep_blank_values=True, max_num_fields=20)
    except ValueError:
        raise MalformedBodyProblem("the form cannot be read: fill it in on its page") from None
    return {name: values[0] for name, values in fields.items()}
