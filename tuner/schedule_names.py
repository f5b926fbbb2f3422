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
