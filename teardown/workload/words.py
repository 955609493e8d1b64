"""Text of about a given number of tokens, made of short common words.

One such word with the space before it is one token in most vocabularies, so n words are about n
tokens. It stays an estimate until the server has reported its own count: special tokens, the chat
template and the run's salt come on top.
"""

import random
from typing import Final

COMMON: Final = """
    able about above across act add after again age ago air all also among and animal answer any
    apple area arm around art ask back ball bank bar base beach bear bed before begin behind below
    best better big bird black blood blue board boat body book both box boy bread bring brown build
    burn bus but buy call came camp can car card care carry case cat cause center chair chance
    change check child church circle city class clean clear climb close cloud coast coat cold color
    come common cook cool copy corn cost could count country course cover cross cry cup cut dance
    dark day deal deep desk did door down draw dream dress drink drive drop dry during dust each ear
    early earth east easy eat edge egg eight else end engine enough even ever every eye face fact
    fair fall family far farm fast father feel few field fight fill film find fine fire first fish
    five floor flow fly food foot force form four free fresh friend from front fruit full game
    garden gate get gift girl give glass goal gold good grass great green ground group grow guess
    had half hall hand hang happy hard hat head hear heart heat heavy help here high hill hit hold
    home hope horse hot hour house how huge idea inside iron island job join jump just keep key kind
    king kitchen knee know lady lake land large last late laugh law lead leaf learn leave left leg
    less letter level lie life light like line lion list little live long look lot love low lunch
    machine made main make man map mark market may mean meat meet milk mind minute miss money month
    moon more morning most mother mountain mouth move much music must name near neck need never new
    next night nine noise north nose note now number ocean off office often oil old once one only
    open orange order other our out over own page paint pair paper park part party past path pay
"""
WORDS: Final = tuple(COMMON.split())


def text_of(label: str, num_tokens: int) -> str:
    """Return `num_tokens` words that depend on `label` alone; a shorter text begins a longer one.

    Labels that differ share no beginning but by chance, 1 in 339 for each word.
    """
    return " ".join(random.Random(label).choices(WORDS, k=max(num_tokens, 0)))
