"""A page taken apart: its elements, attributes, ids, links and visible text."""

from html.parser import HTMLParser


class Page(HTMLParser):
    """Every start tag with its attributes, in order, and the text outside the style sheet."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self._in_style = False
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self._in_style = tag == "style"

    def handle_endtag(self, tag: str) -> None:
        self._in_style = False

    def handle_data(self, data: str) -> None:
        if not self._in_style:
            self.text += data

    def values(self, attribute: str) -> list[str]:
        """The values of one attribute over the page."""
        return [attrs[attribute] or "" for _, attrs in self.elements if attribute in attrs]

    @property
    def tags(self) -> list[str]:
        """The names of all elements, in order."""
        return [tag for tag, _ in self.elements]
