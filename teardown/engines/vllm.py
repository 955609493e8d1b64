"""vLLM's OpenAI server, by its own flags."""

import re
import sys
from importlib import metadata
from pathlib import Path
from typing import ClassVar

from teardown.engines import metrics_page, vllm_log
from teardown.engines.pages import answers, model_rows, page, root_of
from teardown.engines.protocol import Command, Counters, Detected, Launch
from teardown.errors import TargetError, UsageError
from teardown.http import fetch
from teardown.records import LaunchSpec, Options
from teardown.records.stack import OptionValue

START_TIMEOUT_S = 900.0  # a cold compile and graph capture took 90 s for 8B; large models far more
DRAIN_S = 60.0
MODULE = "vllm.entrypoints.cli.main"
# vLLM's flags that take several values: the kit's option is one text, divided at spaces.
MANY_VALUED = {"cudagraph-capture-sizes", "served-model-name", "compile-sizes", "api-key"}
_FLAG = re.compile(r"[a-z][a-z0-9-]*(\.[a-z0-9_.-]+)?")
_SUFFIX = {"k": 10**3, "m": 10**6, "g": 10**9, "K": 2**10, "M": 2**20, "G": 2**30}
_CACHE_LABELS = {
    "block_size": "block-size",
    "cache_dtype": "kv-cache-dtype",
    "enable_prefix_caching": "enable-prefix-caching",
    "gpu_memory_utilization": "gpu-memory-utilization",
    "kv_cache_size_tokens": "kv-cache-size-tokens",
    "num_gpu_blocks": "num-gpu-blocks",
}


class Vllm:
    """vLLM by its flags without dashes: true is the flag alone, false `--no-flag`, None left out.

    Its EngineCore is a child process that survives a SIGKILL of the API server and keeps the GPU
    (vllm-project/vllm#55510): a target must end the whole process group.
    """

    name: ClassVar[str] = "vllm"
    launchers: ClassVar[tuple[str, ...]] = ("vllm",)

    def detect(self, url: str, *, api_key: str | None = None) -> Detected | None:
        """Recognise it by /version beside `owned_by: vllm`; /version alone is not enough."""
        rows = model_rows(url, api_key)
        owned = any(row.get("owned_by") == "vllm" for row in rows)
        told = page(url, "/version", api_key)
        version = told.get("version") if isinstance(told, dict) else None
        if not owned and not (isinstance(version, str) and _has_vllm_metrics(url)):
            return None
        because = "/v1/models is owned by vllm" if owned else "/metrics has vllm: names"
        return Detected(
            engine=self.name,
            version=version if isinstance(version, str) else None,
            models=[str(row["id"]) for row in rows],
            options=self._from_pages(url, api_key),
            because=because,
        )

    def command(self, launch: Launch, *, host: str, port: int, workdir: Path) -> Command:
        """Return `vllm serve` in this Python, or by the `vllm` script that the launch names."""
        start = [launch.binary] if launch.binary else [sys.executable, "-m", MODULE]
        argv = [*start, "serve", _model(launch), "--host", host, "--port", str(port)]
        argv += ["--served-model-name", launch.served_model, *flags(launch.options)]
        return Command(argv=argv, env=dict(launch.env or {}), files={})

    def is_healthy(self, url: str) -> bool:
        """True once /health answers; vLLM listens only when its engine is ready."""
        return answers(url, "/health")

    def effective(
        self, launch: Launch, url: str, log: str, *, api_key: str | None = None
    ) -> Options:
        """Return what the start-up log and the pages say."""
        return {**self._from_pages(url, api_key), **vllm_log.options(log)}

    def mismatches(self, asked: Options, effective: Options) -> list[str]:
        """Return the flags that vLLM says it runs otherwise."""
        return [
            f"{flag} was asked as {value} but runs as {effective[flag]}"
            for flag, value in asked.items()
            if flag in effective
            and value is not None
            and not _is_same(flag, value, effective[flag])
        ]

    def startup_error(self, log: str) -> str | None:
        """Return the reason from the log."""
        return vllm_log.reason(log)

    def metrics_url(self, url: str) -> str | None:
        """Return /metrics beside /v1."""
        return root_of(url) + "/metrics"

    def counters(self, page: str) -> Counters:
        """Read one metrics page."""
        return metrics_page.counters(self.name, page)

    def launch_spec(self, launch: Launch) -> LaunchSpec:
        """Return `vllm serve` with its flags; nothing is written beside it."""
        version = self.version(launch, "")
        argv = ["{python}", "-m", MODULE, "serve", "{model}", "--host", "{host}"]
        argv += ["--port", "{port}", "--served-model-name", launch.served_model]
        return LaunchSpec(
            argv=argv + flags(launch.options),
            files={},
            env=dict(launch.env or {}),
            packages=[f"vllm=={version}" if version else "vllm"],
            health_path="/health",
            metrics_path="/metrics",
            start_timeout_s=START_TIMEOUT_S,
            drain_s=DRAIN_S,
        )

    def version(self, launch: Launch, log: str) -> str | None:
        """Return what the log says, else the version of the package beside the kit."""
        told = vllm_log.version(log)
        if told is not None or launch.binary:
            return told
        try:
            return metadata.version("vllm")
        except metadata.PackageNotFoundError:
            return None

    def _from_pages(self, url: str, api_key: str | None) -> Options:
        found: Options = {}
        for row in model_rows(url, api_key):
            if isinstance(row.get("max_model_len"), int):
                found["max-model-len"] = row["max_model_len"]
        for label, text in _cache_labels(url).items():
            if label in _CACHE_LABELS and text != "None":
                found[_CACHE_LABELS[label]] = _number(text)
        return found


def flags(options: Options) -> list[str]:
    """Return vLLM's command line for `options`; UsageError for a name that is no flag."""
    line: list[str] = []
    for flag, value in options.items():
        if not _FLAG.fullmatch(flag):
            raise UsageError(
                f"vLLM option {flag!r} must be a flag without its dashes, such as max-num-seqs"
            )
        if value is None:
            continue
        if isinstance(value, bool):
            line.append(f"--{flag}" if value else f"--no-{flag}")
        elif flag in MANY_VALUED:
            line += [f"--{flag}", *str(value).split()]
        else:
            line += [f"--{flag}", str(value)]
    return line


def _model(launch: Launch) -> str:
    if not launch.model:
        raise UsageError("vLLM needs target.launch.model: a folder or a model's name")
    return launch.model


def _has_vllm_metrics(url: str) -> bool:
    try:
        return "vllm:" in fetch(root_of(url) + "/metrics")
    except TargetError:
        return False


def _cache_labels(url: str) -> dict[str, str]:
    """Return the labels of vllm:cache_config_info; empty where there is no metrics page."""
    try:
        page_text = fetch(root_of(url) + "/metrics")
    except TargetError:
        return {}
    line = re.search(r"^vllm:cache_config_info\{(.*)\}", page_text, re.MULTILINE)
    return dict(re.findall(r'(\w+)="([^"]*)"', line[1])) if line else {}


def _number(text: str) -> OptionValue:
    if text in ("True", "False"):
        return text == "True"
    try:
        return int(text) if re.fullmatch(r"-?\d+", text) else float(text)
    except ValueError:
        return text


def _is_same(flag: str, value: OptionValue, runs: OptionValue) -> bool:
    """True when `runs` is how vLLM prints `value`: `16k` is 16000, `2G` is 2^31, auto is any."""
    if value == runs or str(value) == str(runs) or value == "auto":
        return True
    text = str(value).strip()
    if re.fullmatch(r"\d+(\.\d+)?[kmgKMG]", text):
        return int(float(text[:-1]) * _SUFFIX[text[-1]]) == runs
    if flag == "cudagraph-capture-sizes":
        return sorted(str(value).replace(",", " ").split(), key=int) == str(runs).split()
    if flag == "dtype":
        return {"half": "float16", "float": "float32"}.get(text, text) == runs
    return False
