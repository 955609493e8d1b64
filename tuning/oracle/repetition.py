"""Text that is no answer: one character over and over, one phrase over and over."""

from collections import Counter

# A text shorter than this says too little to be called a repetition.
MIN_CHARACTERS = 24
MIN_WORDS = 20
# One character (not a space) making up half of a text is the "!!!!" of broken kernels.
CHARACTER_RATIO = 0.5
# Ordinary prose repeats few of its four-word phrases; a loop repeats nearly all of them.
DISTINCT_PHRASES_RATIO = 0.4
PHRASE_WORDS = 4


def is_repetition(text: str) -> bool:
    """True for a run of one character or a loop of one phrase."""
    visible = "".join(text.split())
    if len(visible) >= MIN_CHARACTERS:
        most = Counter(visible).most_common(1)[0][1]
        if most / len(visible) >= CHARACTER_RATIO:
            return True
    words = text.split()
    if len(words) < MIN_WORDS:
        return False
    phrases = [tuple(words[i : i + PHRASE_WORDS]) for i in range(len(words) - PHRASE_WORDS + 1)]
    return len(set(phrases)) / len(phrases) < DISTINCT_PHRASES_RATIO
