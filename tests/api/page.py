"""What is on a page, as a browser reads it?"""

from html.parser import HTMLParser

_LOADS = {"script": "src", "link": "href", "img": "src", "iframe": "src"}


class Page(HTMLParser):
    """The text that is shown, the addresses that are loaded, the elements by name."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.loads: list[str] = []
        self.links: list[str] = []
        self.elements: list[str] = []
        self.attributes: list[str] = []
        self._parts: list[str] = []
        self._hidden = 0
        self.feed(source)
        self.text = " ".join("".join(self._parts).split())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note what the element is and loads."""
        self.elements.append(tag)
        self.attributes += [name for name, _ in attrs]
        self.loads += [value for name, value in attrs if name == _LOADS.get(tag) and value]
        self.links += [value for name, value in attrs if tag == "a" and name == "href" and value]
        self._hidden += tag in {"script", "style"}

    def handle_endtag(self, tag: str) -> None:
        """Leave the element."""
        self._hidden -= tag in {"script", "style"}

    def handle_data(self, data: str) -> None:
        """Note the text outside scripts and styles."""
        if not self._hidden:
            self._parts.append(data)


def loaded(source: str) -> list[str]:
    """The addresses that a page loads."""
    return Page(source).loads
