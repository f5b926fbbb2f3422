"""How far has long work come? A bar on a terminal's stderr, nothing elsewhere."""

import sys

import click

_BAR = 24
_WIDTH = 100


def show(done: int, total: int, what: str) -> None:
    """Draw the bar anew; the last time it ends its line."""
    if not sys.stderr.isatty():
        return
    filled = _BAR * done // total
    line = f"[{'#' * filled}{'.' * (_BAR - filled)}] {done}/{total} {what}"
    click.echo(f"\r{line[:_WIDTH]:<{_WIDTH}}", err=True, nl=done == total)


def clear() -> None:
    """Make room for a sentence where a bar stands."""
    if sys.stderr.isatty():
        click.echo(f"\r{'':<{_WIDTH}}\r", err=True, nl=False)
