"""How the original stack is started, derived from how the accepted one is.

The verdict carries one LaunchSpec. Engines keep their options either in a JSON file beside the
program (`{"options": {...}}`) or as flags of the command; both can be turned back exactly.
"""

import json
from dataclasses import replace

from teardown.records import LaunchSpec, Options, OptionValue, Stack

# llama-server: flags that take a word where others stand alone, and flags that cannot be negated.
WORD_VALUED = ("fit", "flash-attn")
FLAG_ONLY = ("metrics", "swa-full")
# vLLM: flags that take several words
MANY_VALUED = ("api-key", "compile-sizes", "cudagraph-capture-sizes", "served-model-name")


def previous_launch(launch: LaunchSpec, accepted: Stack, original: Stack) -> LaunchSpec | None:
    """Return `launch` with the options of `original`; None when they are not visible in it."""
    if accepted.launcher != original.launcher:
        return None  # another program
    carriers = [*launch.argv, *launch.files.values()]
    if accepted.model != original.model and not any("{model}" in text for text in carriers):
        return None  # another model that nothing carries
    return _by_file(launch, accepted, original) or _by_flags(launch, accepted, original)


def _by_file(launch: LaunchSpec, accepted: Stack, original: Stack) -> LaunchSpec | None:
    for name, text in launch.files.items():
        try:
            document = json.loads(text)
        except ValueError:
            continue
        if not isinstance(document, dict) or not isinstance(document.get("options"), dict):
            continue
        options = dict(document["options"])
        for key in accepted.options:
            options.pop(key, None)
        document["options"] = options | original.options
        turned = json.dumps(document, indent=1, ensure_ascii=False) + "\n"
        return replace(launch, files={**launch.files, name: turned})
    return None


def _by_flags(launch: LaunchSpec, accepted: Stack, original: Stack) -> LaunchSpec | None:
    argv = list(launch.argv)
    for key, value in accepted.options.items():
        if original.options.get(key) == value and key in original.options:
            continue
        for words in sorted(_spellings(key, value), key=len, reverse=True):
            at = _find(argv, words)
            if at is not None:
                argv[at : at + len(words)] = []
                break
        else:
            if value is not None and value is not False:
                return None
    for key, value in original.options.items():
        if key not in accepted.options or accepted.options[key] != value:
            argv += _spellings(key, value)[0]
    return replace(launch, argv=argv)


def _spellings(key: str, value: OptionValue) -> list[list[str]]:
    """Return how a command line may say `key` = `value`, the usual one first."""
    name = key if key.startswith("-") else f"--{key}"
    bare = name.removeprefix("--")
    if value is None or (value is False and key in FLAG_ONLY):
        return [[]]
    if key in MANY_VALUED:
        return [[name, *str(value).split()]]
    if isinstance(value, bool) and key in WORD_VALUED:
        return [[name, "on" if value else "off"]]
    if value is True:
        return [[name], [name, "true"], [name, "on"]]
    if value is False:
        return [[f"--no-{bare}"], [name, "false"], [name, "off"]]
    return [[name, str(value)], [f"{name}={value}"]]


def _find(argv: list[str], words: list[str]) -> int | None:
    if not words:
        return None
    for at in range(len(argv) - len(words) + 1):
        if argv[at : at + len(words)] == words:
            return at
    return None


def changed_options(accepted: Options, original: Options) -> dict[str, tuple[str, str]]:
    """Return the options that differ as name -> (original, accepted), for people to read."""
    names = [*original, *(k for k in accepted if k not in original)]
    return {
        name: (_shown(original.get(name)), _shown(accepted.get(name)))
        for name in names
        if original.get(name) != accepted.get(name)
    }


def _shown(value: OptionValue) -> str:
    return "unset" if value is None else json.dumps(value, ensure_ascii=False)
