"""Which schedules are there? Each name is that of its module in `tuner.schedules.generators`."""

SCHEDULES = (
    "gpipe",
    "dapple",
    "gems",
    "chimera",
    "interleaved",
    "zb_h1",
    "zb_v",
    "dualpipe",
    "chimera_split",
    "pipedream",
    "pipedream_2bw",
    "pipemare",
)
"""Adding a schedule is a module and a line here; `tuner.schedules` says which of them can be planned."""

_ELSEWHERE = {
    "1f1b": "dapple",
    "1f1bflush": "dapple",
    "pipedreamflush": "dapple",
    "interleaved1f1b": "interleaved",
    "loopeddfs": "interleaved",
    "vpp": "interleaved",
    "virtualpipeline": "interleaved",
    "zerobubble": "zb_h1",
    "zb1p": "zb_h1",
    "zbh1": "zb_h1",
    "zbv": "zb_v",
    "zbvzerobubble": "zb_v",
    "2bw": "pipedream_2bw",
}
"""What other frameworks and papers call them, in letters and digits."""


def called_here(name: str) -> str:
    """A hint for a name that is none: ` (1F1B is dapple here)`, or nothing."""
    plain = "".join(letter for letter in name.lower() if letter.isalnum())
    known = _ELSEWHERE.get(plain) or next((one for one in SCHEDULES if one.replace("_", "") == plain), None)
    return f" ({name[:60]} is {known} here)" if known else ""
