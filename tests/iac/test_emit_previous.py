"""The original's start is derived from the accepted one's, or is not given at all."""

import json

from iac.previous import changed_options, previous_launch
from tests.iac.engagements import launch_of, stack


def test_options_in_a_file_become_the_originals() -> None:
    accepted, original = stack(parallel=4, threads=2), stack(parallel=1, poll=0)
    turned = previous_launch(launch_of(accepted), accepted, original)
    assert turned is not None
    assert json.loads(turned.files["engine.json"])["options"] == {"parallel": 1, "poll": 0}
    assert turned.argv == launch_of(accepted).argv


def test_options_that_the_launcher_added_itself_stay() -> None:
    accepted, original = stack(parallel=4), stack(parallel=1)
    launch = launch_of(
        accepted, files={"engine.json": json.dumps({"options": {"parallel": 4, "metrics": True}})}
    )
    turned = previous_launch(launch, accepted, original)
    assert turned is not None
    assert json.loads(turned.files["engine.json"])["options"] == {"parallel": 1, "metrics": True}


def test_flags_become_the_originals() -> None:
    accepted = stack(**{"max-num-seqs": 64, "enable-prefix-caching": True, "dtype": "auto"})
    original = stack(**{"max-num-seqs": 8, "enforce-eager": True, "dtype": "auto"})
    argv = [
        "vllm",
        "serve",
        "{model}",
        "--max-num-seqs",
        "64",
        "--enable-prefix-caching",
        "--dtype",
        "auto",
    ]
    launch = launch_of(accepted, argv=argv, files={})
    turned = previous_launch(launch, accepted, original)
    assert turned is not None
    assert turned.argv == [
        "vllm",
        "serve",
        "{model}",
        "--dtype",
        "auto",
        "--max-num-seqs",
        "8",
        "--enforce-eager",
    ]


def test_a_flag_with_an_equals_sign_is_found() -> None:
    accepted, original = stack(parallel=4), stack(parallel=1)
    launch = launch_of(accepted, argv=["server", "--parallel=4"], files={})
    turned = previous_launch(launch, accepted, original)
    assert turned is not None
    assert turned.argv == ["server", "--parallel", "1"]


def test_an_option_that_the_command_does_not_show_gives_no_rollback() -> None:
    accepted, original = stack(parallel=4), stack(parallel=1)
    assert previous_launch(launch_of(accepted, files={}, argv=["x"]), accepted, original) is None


def test_changed_options_name_both_values() -> None:
    shown = changed_options({"parallel": 4, "poll": 0}, {"parallel": 1, "poll": 0, "fit": False})
    assert shown == {"parallel": ("1", "4"), "fit": ("false", "unset")}
