"""Finds the client's words in what is about to be kept, or is kept already.

Texts are cut into neighbouring pieces of `PIECE_CHARS` characters, white space and JSON escapes
made one; a text is found wherever any of its pieces stands. Every stretch of a known text of at
least 2 · PIECE_CHARS - 1 characters contains a whole piece, so none of that length is missed.
"""

import bisect
import re
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

PIECE_CHARS: Final = 24
REMOVED: Final = "[removed: it held text of a prompt]"
# white space, real or as JSON and logs write it, becomes one blank; an escaped quote a quote
UNEVEN: Final = re.compile(r'(?P<quote>\\")|(?:\\[nrt]|\s)+')


class Plain(NamedTuple):
    """A text made even: `starts[i]` in it corresponds to `origins[i]` in what it was made from."""

    text: str
    starts: list[int]
    origins: list[int]

    def origin(self, at: int) -> int:
        """Return where the character at `at` stood."""
        number = bisect.bisect_right(self.starts, at) - 1
        return self.origins[number] + at - self.starts[number]


class TextFinder:
    """Knows some texts and tells whether another text holds a piece of one of them."""

    def __init__(self, texts: Iterable[str]) -> None:
        self._pieces: set[str] = set()
        for text in texts:
            plain = even(text).text
            last = len(plain) - PIECE_CHARS
            self._pieces.update(
                plain[at : at + PIECE_CHARS] for at in range(0, last + 1, PIECE_CHARS)
            )

    @property
    def num_pieces(self) -> int:
        """How many different pieces are known."""
        return len(self._pieces)

    def finds(self, text: str) -> bool:
        """Return whether a known piece stands anywhere in `text`."""
        return next(self._places(even(text).text), None) is not None

    def scrub(self, text: str) -> str:
        """Return `text` with every line that holds part of a known piece replaced."""
        plain = even(text)
        places = [plain.origin(at) for at in self._places(plain.text)]
        ends = [plain.origin(at + PIECE_CHARS - 1) for at in self._places(plain.text)]
        if not places:
            return text
        lines = text.splitlines(keepends=True)
        begins = [0]
        for line in lines:
            begins.append(begins[-1] + len(line))
        guilty: set[int] = set()
        for first, last in zip(places, ends, strict=True):
            from_line, to_line = (bisect.bisect_right(begins, at) - 1 for at in (first, last))
            guilty.update(range(from_line, to_line + 1))
        return "".join(REMOVED + "\n" if at in guilty else line for at, line in enumerate(lines))

    def _places(self, plain: str) -> Iterator[int]:
        pieces, size = self._pieces, PIECE_CHARS
        last = len(plain) - size if pieces else -1
        return (at for at in range(last + 1) if plain[at : at + size] in pieces)


def even(text: str) -> Plain:
    """Return `text` with white space and escapes of it as single blanks, quotes unescaped."""
    parts: list[str] = []
    starts, origins = [0], [0]
    length = done = 0
    for match in UNEVEN.finditer(text):
        parts += [text[done : match.start()], '"' if match["quote"] else " "]
        length += match.start() - done
        starts += [length, length + 1]
        origins += [match.start(), match.end()]
        length, done = length + 1, match.end()
    return Plain("".join([*parts, text[done:]]), starts, origins)
