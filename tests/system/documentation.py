"""What does the documentation show? Its pages, their blocks, links, and the commands they name."""

import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    path.relative_to(ROOT).as_posix()
    for path in (*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.md"))
)
RUN = {"sh", "console", "python"}
"""Languages whose blocks are run."""
READ = {"json", "toml", "yaml", "text"}
"""Languages whose blocks are read; `text` is what something printed."""

_BLOCK = re.compile(
    r"(?:^ *<!-- (?P<note>[^\n]*?) -->\n)?"
    r"^(?P<indent> *)```(?P<language>[^\n]*)\n(?P<text>.*?)^ *``` *$",
    flags=re.MULTILINE | re.DOTALL,
)
_HEADING = re.compile(r"^#{1,6} +(.+?) *#*$", flags=re.MULTILINE)
_LINK = re.compile(r"(?<!!)\[[^\]]*\]\(<?([^)>\s]+)>?\)")
_CODE = re.compile(r"`([^`\n]+)`")
_PROMPT = "$ "


@dataclass(frozen=True)
class Block:
    """A fenced block of a page."""

    page: str
    number: int
    language: str
    text: str
    note: str | None
    """What the comment before it says: `not run: WHY`, or `long: WHY` where `make long` runs it."""

    @property
    def why_not(self) -> str | None:
        """Why it is never run."""
        return self._said("not run")

    @property
    def is_long(self) -> bool:
        """Whether `make long` runs it."""
        return self._said("long") is not None

    def _said(self, word: str) -> str | None:
        key, _, reason = (self.note or "").partition(": ")
        return reason if key == word and reason else None


def read(page: str) -> str:
    """The text of a page."""
    return (ROOT / page).read_text(encoding="utf-8")


def blocks(page: str) -> list[Block]:
    """The fenced blocks of a page."""
    return [
        Block(page, number, found["language"].strip(), _dedent(found["text"], found["indent"]), found["note"])
        for number, found in enumerate(_BLOCK.finditer(read(page)), start=1)
    ]


def prose(page: str) -> str:
    """The text without its blocks."""
    return _BLOCK.sub("", read(page))


def anchors(page: str) -> set[str]:
    """What a link may name in a page, as GitHub makes it of headings."""
    seen: Counter[str] = Counter()
    found = set()
    for heading in _HEADING.findall(prose(page)):
        text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        slug = re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-")
        found.add(f"{slug}-{seen[slug]}" if seen[slug] else slug)
        seen[slug] += 1
    return found


def links(page: str) -> list[str]:
    """The targets of links inside the repository."""
    targets = _LINK.findall(_CODE.sub("", prose(page)))
    return [target for target in targets if not re.match(r"[a-z][a-z0-9+.-]*:", target)]


def named(page: str) -> list[str]:
    """What stands between backticks in the text."""
    return _CODE.findall(prose(page))


def session(text: str) -> list[tuple[str, list[str]]]:
    """The commands of a console block, each with the lines that it is shown to print."""
    found: list[tuple[str, list[str]]] = []
    going_on = False
    for line in text.splitlines():
        if line.startswith(_PROMPT):
            found.append((line.removeprefix(_PROMPT), []))
        elif going_on:
            command, shown = found[-1]
            found[-1] = (f"{command}\n{line}", shown)
        elif found:
            found[-1][1].append(line)
        going_on = line.endswith("\\") and not (found and found[-1][1])
    return found


def _dedent(text: str, indent: str) -> str:
    return "".join(line.removeprefix(indent) for line in text.splitlines(keepends=True))
