"""Telephone calls to a voice agent: N at once, each of some turns, the transcript growing.

One turn, in the caller's time (all lengths are the caller's own but the two that are measured):

    TTFO | the reply is played | caller thinks | caller speaks | endpointing | TTFO | ...
    ^ request sent                                                           ^ the next one

- played: words of the reply at `words_per_minute`, from its first answer text; a word that has not
  arrived when its time comes is waited for.
- speaks: words of the caller's utterance at the same pace.
- thinks: uniform in [0.5, 1.5] x `think_s`.
- the next request is intended at: end of playing + thinks + speaks + `endpointing_s`.
- calls begin evenly over `ramp_s`; a new level begins with fresh caches (its run's own salt).

Prompts that the kit makes: instructions that all calls share, then the transcript. Turn k of K
(from 0) has S + (k + 1) u + k r tokens for instructions S, utterance u and reply r, so the mean
over the turns is S + u (K + 1)/2 + r (K - 1)/2, and S follows from the asked mean.
"""

import random

from teardown.errors import UsageError
from teardown.records import ScheduledRequest, Speech
from teardown.workload.item import request
from teardown.workload.prompts import Prompt
from teardown.workload.sessions import check_messages, sessions_of
from teardown.workload.synthetic import Line, synthetic_lines
from teardown.workload_settings import SyntheticSettings, VoiceSettings, WorkloadSettings

# The pause before the caller answers where the workload sets none: gaps between turns of a
# conversation are mostly below 1 s (Stivers et al., PNAS 106, 2009); a caller who has to think
# takes longer.
DEFAULT_THINK_S = 1.0


def build(load: WorkloadSettings, prompts: list[Prompt]) -> list[ScheduledRequest]:
    """Return `concurrency` calls, each in a lane of its own; a short file of calls starts over."""
    check_messages(load, prompts)
    voice = settings_of(load)
    draw = random.Random(f"{load.seed}/voice")
    requests: list[ScheduledRequest] = []
    used: dict[str, int] = {}
    for call, session in enumerate(sessions_of(prompts, load.concurrency)):
        begin_s = round(call * voice.ramp_s / load.concurrency, 6)
        round_ = used.get(session[0].session, 0)
        used[session[0].session] = round_ + 1
        for prompt in session[: voice.turns]:
            pause_s = (load.think_s or DEFAULT_THINK_S) * draw.uniform(0.5, 1.5)
            own_s = pause_s + 60 * _utterance_words(prompt) / voice.words_per_minute
            requests.append(
                request(
                    load,
                    prompt,
                    len(requests),
                    round_,
                    lane=call,
                    intended_s=begin_s if prompt.turn == 0 else None,
                    think_s=round(own_s + voice.endpointing_s, 6) if prompt.turn else 0.0,
                )
            )
    return requests


def settings_of(load: WorkloadSettings) -> VoiceSettings:
    """Return the call's lengths and pauses, the published method's where none are set."""
    return load.voice or VoiceSettings()


def speech_of(load: WorkloadSettings) -> Speech:
    """Return how answers are heard."""
    voice = settings_of(load)
    return Speech(words_per_minute=voice.words_per_minute, endpointing_s=voice.endpointing_s)


def voice_lines(load: WorkloadSettings) -> list[Line]:
    """Return the prompts of `concurrency` calls; UsageError where no instructions are left."""
    voice = settings_of(load)
    spoken = voice.caller_words * (voice.turns + 1) + voice.reply_tokens * (voice.turns - 1)
    instructions = round(voice.prompt_tokens - spoken / 2)
    if instructions < 1:
        raise UsageError(
            f"workload {load.name!r}: `voice.prompt_tokens` {voice.prompt_tokens} is less than its "
            f"own transcript, {spoken / 2:g} tokens in the mean over the turns"
        )
    made = SyntheticSettings(
        prompt_tokens=instructions + voice.caller_words,
        output_tokens=voice.reply_tokens,
        shared_prefix_tokens=instructions,
        turns=voice.turns,
        turn_tokens=voice.caller_words,
    )
    return synthetic_lines(made, load.seed, load.concurrency * voice.turns)


def _utterance_words(prompt: Prompt) -> int:
    content = prompt.body["messages"][-1].get("content")
    return len(content.split()) if isinstance(content, str) else 0
