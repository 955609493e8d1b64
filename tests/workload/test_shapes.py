"""What is kept of a prompt: shared prefixes and lengths can be seen, words cannot."""

import stat
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from teardown.workload.finder import PIECE_CHARS, REMOVED, TextFinder, even
from teardown.workload.prompts import Prompt
from teardown.workload.shapes import BLOCK_CHARS, block_hashes, block_key, shapes_of

KEY = bytes(32)


def prompt(text: str) -> Prompt:
    return Prompt(
        index=0, session="s", turn=0, max_tokens=None, at_s=None, body={}, text=text, sha256=""
    )


@given(st.text(max_size=3 * BLOCK_CHARS), st.text(max_size=BLOCK_CHARS), st.text(max_size=9))
def test_prompts_share_as_many_hashes_as_whole_blocks(common: str, one: str, other: str) -> None:
    first, second = block_hashes(common + one, KEY), block_hashes(common + other, KEY)
    shared = len(common) // BLOCK_CHARS
    assert first[:shared] == second[:shared]
    assert len(first) == len(common + one) // BLOCK_CHARS


def test_another_key_gives_other_hashes() -> None:
    assert block_hashes("a" * BLOCK_CHARS, KEY) != block_hashes("a" * BLOCK_CHARS, b"1" * 32)


def test_a_later_difference_changes_no_earlier_block() -> None:
    text = "x" * (2 * BLOCK_CHARS)
    changed = text[:-1] + "y"
    assert block_hashes(text, KEY)[0] == block_hashes(changed, KEY)[0]
    assert block_hashes(text, KEY)[1] != block_hashes(changed, KEY)[1]


def test_under_shape_only_lengths_are_kept() -> None:
    (shape,) = shapes_of([prompt("z" * 1000)], "shape", KEY)
    assert shape.num_chars == 1000
    assert shape.blocks == []


def test_the_key_is_made_once_and_is_its_owners_alone(tmp_path: Path) -> None:
    key = block_key(tmp_path)
    assert len(key) == 32
    assert block_key(tmp_path) == key
    (path,) = tmp_path.iterdir()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@given(
    st.text(alphabet="abcdefgh ", min_size=200, max_size=300),
    st.integers(0, 100),
    st.sampled_from(["{}", 'log: "{}" end', "[{}]"]),
)
def test_a_stretch_of_two_pieces_is_always_found(text: str, start: int, frame: str) -> None:
    plain = " ".join(text.split())
    stretch = plain[start : start + 2 * PIECE_CHARS]
    if len(stretch) == 2 * PIECE_CHARS:
        assert TextFinder([text]).finds(frame.format(stretch))


def test_escaped_and_wrapped_text_is_found() -> None:
    finder = TextFinder(['Please say "hello" to the\nwhole team of the northern office, thank you'])
    assert finder.finds(r"prompt: Please say \"hello\" to the\nwhole team of the northern office")


def test_a_log_loses_the_lines_with_text_and_no_other() -> None:
    secret = "the merger with the third company of the list is planned for the end of May"
    log = f"slot 0: started\nprompt: {secret}\nn_batch = 64\n"
    scrubbed = TextFinder([secret]).scrub(log)
    assert scrubbed == f"slot 0: started\n{REMOVED}\nn_batch = 64\n"


def test_text_broken_over_lines_is_removed_whole() -> None:
    log = "a\nthe merger\nwith the third\ncompany of the list\nb\n"
    scrubbed = TextFinder(["the merger with the third company of the list"]).scrub(log)
    assert scrubbed.splitlines() == ["a", REMOVED, REMOVED, "company of the list", "b"]


@given(st.text(alphabet='ab \n\t\\"nrt', max_size=60))
def test_every_place_in_an_even_text_leads_back_to_where_it_stood(text: str) -> None:
    plain = even(text)
    for at, character in enumerate(plain.text):
        origin = text[plain.origin(at) :]
        if character not in ' "':
            assert origin[0] == character
        else:
            assert origin[0].isspace() or origin[0] in '\\"'


def test_a_log_without_text_stays_as_it_is() -> None:
    assert TextFinder(["q" * 60]).scrub("n_batch = 64\r\nend") == "n_batch = 64\r\nend"
