"""Lines of the prompts file, as schedules count them."""

import json
from pathlib import Path

import pytest

from teardown.errors import UsageError
from teardown.load.config import LoadConfig
from teardown.load.prompts import Prompts
from teardown.workload.prompts import read_prompts
from tests.fakes.loads import closed_schedule, item, load_config


def config_for(folder: Path, text: str) -> LoadConfig:
    config = load_config(folder, "http://h/v1", closed_schedule(1, 1))
    Path(config.prompts_path).write_text(text, encoding="utf-8")
    return config


@pytest.mark.parametrize("separator", ["\n", "\r\n", "\n\n", "\n \n"])
def test_the_line_that_was_scheduled_is_the_line_that_is_sent(
    tmp_path: Path, separator: str
) -> None:
    texts = ["one", "two\u2028and a line separator", "three\u0085\u000b", "four"]
    lines = [json.dumps({"prompt": text}, ensure_ascii=False) for text in texts]
    config = config_for(tmp_path, separator.join(lines))
    scheduled = read_prompts(Path(config.prompts_path))
    prompts = Prompts(config)
    sent = [
        json.loads(prompts.outgoing(item(n, prompt=prompt.index)).body)["prompt"]
        for n, prompt in enumerate(scheduled)
    ]
    assert sent == [prompt.text for prompt in scheduled] == texts


@pytest.mark.parametrize(
    "line",
    ['{"input": 3}', '{"input": [3]}', '{"messages": "x"}', '{"prompt": ["x"]}', "[]", "{", "{}"],
)
def test_a_line_that_nothing_can_be_asked_with_is_named(tmp_path: Path, line: str) -> None:
    config = config_for(tmp_path, '{"prompt": "x"}\n' + line)
    with pytest.raises(UsageError, match="line 2"):
        Prompts(config)
    with pytest.raises(UsageError, match="line 2"):
        read_prompts(Path(config.prompts_path))


def test_a_prompt_that_is_not_in_the_file_is_named(tmp_path: Path) -> None:
    prompts = Prompts(config_for(tmp_path, '\n{"prompt": "x"}\n'))
    with pytest.raises(UsageError, match=r"r0 uses prompt 0, .* no prompt in that line"):
        prompts.check([item(0)])
    prompts.check([item(0, prompt=1)])
