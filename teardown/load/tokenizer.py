"""Tokens of a text by a tokenizer on this disk, for servers that report no usage.

Counts are of the text alone: no token that marks its beginning or its end is added, or a text
counted in pieces would grow with their number (inference-perf#564). Nothing is downloaded.
"""

from pathlib import Path
from typing import Any, Protocol

from teardown.errors import FeatureMissing, UsageError


class Tokenizer(Protocol):
    """Counts the tokens of a text."""

    def count(self, text: str) -> int:
        """Return how many tokens `text` has."""


class HuggingFaceTokenizer:
    """A `tokenizers.Tokenizer`."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer

    def count(self, text: str) -> int:
        """Return how many tokens `text` has."""
        return len(self._tokenizer.encode(text, add_special_tokens=False).ids)


class GgufTokenizer:
    """The vocabulary of a GGUF file, read by a `llama_cpp.Llama` without its weights."""

    def __init__(self, llama: Any) -> None:
        self._llama = llama

    def count(self, text: str) -> int:
        """Return how many tokens `text` has."""
        return len(self._llama.tokenize(text.encode(), add_bos=False, special=False))


def open_tokenizer(path: Path) -> Tokenizer:
    """Open a `tokenizer.json`, a folder that holds one, or a `.gguf` file.

    UsageError where it is none of them, FeatureMissing where the package that reads it is missing.
    """
    if path.is_dir():
        path = path / "tokenizer.json"
    if not path.is_file():
        raise UsageError(f"the tokenizer {path} does not exist")
    return _open_gguf(path) if path.suffix == ".gguf" else _open_json(path)


def _open_json(path: Path) -> Tokenizer:
    try:
        from tokenizers import Tokenizer as Reader
    except ImportError as error:
        raise FeatureMissing(
            f"{path} is read by the package tokenizers: pip install 'teardown-kit[tokenizer]'"
        ) from error
    try:
        return HuggingFaceTokenizer(Reader.from_file(str(path)))
    except Exception as error:  # the package raises bare Exceptions
        raise UsageError(f"{path} is not a tokenizer: {' '.join(str(error).split())}") from error


def _open_gguf(path: Path) -> Tokenizer:
    try:
        from llama_cpp import Llama
    except ImportError as error:
        raise FeatureMissing(
            f"the vocabulary in {path} is read by llama-cpp-python: "
            "pip install 'teardown-kit[logits]'"
        ) from error
    try:
        return GgufTokenizer(Llama(model_path=str(path), vocab_only=True, verbose=False))
    except (OSError, ValueError) as error:
        raise UsageError(f"{path} cannot be read: {error}") from error
