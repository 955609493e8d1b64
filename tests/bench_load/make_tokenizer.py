"""Write a word tokenizer that needs no network, in a peer's venv: `make_tokenizer.py FOLDER`."""

import sys

from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

SYLLABLES = ("ka", "lo", "mi", "ne", "pu", "ra", "so", "ti", "vu", "we")


def main() -> None:
    """Make a thousand words of three syllables, and the end and unknown tokens."""
    words = [a + b + c for a in SYLLABLES for b in SYLLABLES for c in SYLLABLES]
    vocabulary = {word: number for number, word in enumerate(["<unk>", "</s>", *words])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.decoder = decoders.WordPiece(prefix="##", cleanup=False)
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, unk_token="<unk>", eos_token="</s>", pad_token="</s>"
    )
    fast.save_pretrained(sys.argv[1])


if __name__ == "__main__":
    main()
