"""What does an argument list of Megatron-LM say? Flags with their values, out of a command or a shell script.

Flags of Megatron Core 0.19 (September 2026), and the names that earlier releases had for them.
"""

import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tuner.imports.errors import ImportedError

MOST_CHARACTERS = 1_000_000

_ASSIGNMENT = re.compile(r"^\s*(?:export\s+)?([A-Za-z_]\w*)=(\"[^\"\n]*\"|'[^'\n]*'|[^\s;()]*)", re.MULTILINE)
_VARIABLE = re.compile(r"\$(?:\{([A-Za-z_]\w*)(?::?[-=]([^}]*))?\}|([A-Za-z_]\w*))")
_OLD_NAMES = {"--model-parallel-size": "--tensor-model-parallel-size", "--batch-size": "--micro-batch-size"}
_SHARE = re.compile(r"0|0?\.\d{1,20}|0\.")
_DEEPEST = 10


@dataclass(frozen=True)
class Flags:
    """Flags by name, as `--num-layers`; a flag without a value has an empty one."""

    values: Mapping[str, str]
    doubts: tuple[str, ...] = ()
    """What a reader of the text cannot know, a sentence each."""

    def has(self, *names: str) -> bool:
        """Whether any of them is there."""
        return any(name in self.values for name in names)

    def text(self, name: str) -> str | None:
        """The value of a flag, None where it is missing; raises ImportedError where it is a variable's."""
        value = self.values.get(name)
        if value is not None and "$" in value:
            raise ImportedError(
                f"{name} is {value[:60]!r}, which nothing here sets: write the value, or set it above"
            )
        return value

    def count(self, name: str, *, default: int | None = None) -> int:
        """A whole number of at least 1; raises ImportedError where it is missing or none."""
        value = self.text(name)
        if value is None:
            if default is None:
                raise ImportedError(f"{name} is missing: a plan cannot be compared without it")
            return default
        if not value.isdecimal() or not 0 < int(value[:20]) < 10**12:
            raise ImportedError(f"{name} {value[:60]!r} is not a whole number of at least 1")
        return int(value)

    def share(self, name: str, *, default: float) -> float:
        """A number from 0 up to but not including 1; raises ImportedError for any other."""
        value = self.text(name)
        if value is None:
            return default
        if not _SHARE.fullmatch(value):
            raise ImportedError(f"{name} {value[:60]!r} is not a number from 0 up to but not including 1")
        return float(value)


def read_flags(text: str) -> Flags:
    """The flags of a command line or a script; a flag that is given twice has its last value, as there.

    Variables that the text sets are filled in. Nothing is run.
    """
    if len(text) > MOST_CHARACTERS:
        raise ImportedError(f"the text has {len(text):,} characters; at most {MOST_CHARACTERS:,} are read")
    text = text.replace("\\\n", " ")
    variables, doubts = _variables(text)
    values: dict[str, str] = {}
    name = ""
    for word in _words(_filled(text, variables)):
        if word.startswith("--"):
            name, _, value = word.partition("=")
            name = name.replace("_", "-")
            name = _OLD_NAMES.get(name, name)
            values[name] = value
        elif name and not values[name]:
            values[name] = word
    if not values:
        raise ImportedError("there are no flags such as --num-layers 32 in it: is this the right text?")
    return Flags(values, doubts)


def _variables(text: str) -> tuple[dict[str, str], tuple[str, ...]]:
    """What the text sets; a variable that is set from itself, as in TP=${TP:-2}, from what it was before.

    Conditions are not followed: what is set to several things has the last, and that is a doubt.
    """
    found: dict[str, str] = {}
    doubts: dict[str, str] = {}
    for name, value in _ASSIGNMENT.findall(text):
        before = found.get(name)
        found[name] = _from_before(name, value.strip("\"'"), before)
        if len(found[name]) > MOST_CHARACTERS:
            raise ImportedError(f"filled in, ${name[:60]} has more than {MOST_CHARACTERS:,} characters")
        from_itself = any(name in {one, other} for one, _, other in _VARIABLE.findall(value))
        if before not in {None, found[name]} and not from_itself:
            told = f"{name[:60]} is set more than once: {found[name][:60]!r}, the last, is taken"
            doubts[name] = f"{told}, whatever conditions the script has"
    return found, tuple(doubts.values())


def _from_before(name: str, value: str, before: str | None) -> str:
    def filled(match: re.Match[str]) -> str:
        if name not in {match[1], match[3]}:
            return match[0]
        return (match[2] or "") if before is None else before

    return _VARIABLE.sub(filled, value)


def _filled(text: str, variables: Mapping[str, str]) -> str:
    """Variables replaced by what they are set to; others stay as they are."""
    left = MOST_CHARACTERS

    def value(match: re.Match[str]) -> str:
        nonlocal left
        found = variables.get(match[1] or match[3], match[2] or match[0])
        left -= len(found)
        if left < 0:
            raise ImportedError(f"filled in, its variables have more than {MOST_CHARACTERS:,} characters")
        return found

    for _ in range(_DEEPEST):
        before, text = text, _VARIABLE.sub(value, text)
        if text == before:
            break
    return text


def _words(text: str) -> Iterator[str]:
    """Words of each line as a shell splits it; lines that a shell would not take are split at blanks."""
    for line in text.splitlines():
        try:
            yield from (word.strip("()") for word in shlex.split(line, comments=True))
        except ValueError:
            yield from line.split()
