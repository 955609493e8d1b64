"""llama-cpp-python's server: one model call at a time, no metrics page.

Its defaults hurt (0.3.36, llama_cpp/server/settings.py and app.py): n_ctx 2048, n_gpu_layers 0,
flash_attn off, logits_all on, half the cores; and `interrupt_requests` is on, so that a second
request ends the running stream with `[DONE]`. Serving many users from it is no tuning matter.
"""

import difflib
import sys
from importlib import metadata
from pathlib import Path
from typing import ClassVar

from teardown.engines import llamacpp_log
from teardown.engines.llamacpp import CONTEXT_PAD, model_path
from teardown.engines.pages import answers, model_rows
from teardown.engines.protocol import Command, Counters, Detected, Launch
from teardown.errors import UsageError
from teardown.records import LaunchSpec, Options
from teardown.records.stack import OptionValue

START_TIMEOUT_S = 120.0
DRAIN_S = 30.0
MODULE = "llama_cpp.server"
# ggml's type numbers, which `type_k` and `type_v` take (ggml.h)
GGML_TYPES = {"f32": 0, "f16": 1, "q4_0": 2, "q4_1": 3, "q5_0": 6, "q5_1": 7, "q8_0": 8}
GGML_TYPES |= {"iq4_nl": 20, "bf16": 30}
OPTIONS = frozenset(
    {
        "cache",
        "cache_size",
        "cache_type",
        "chat_format",
        "clip_model_path",
        "disable_ping_events",
        "draft_model",
        "draft_model_num_pred_tokens",
        "embedding",
        "flash_attn",
        "hf_model_repo_id",
        "hf_pretrained_model_name_or_path",
        "hf_tokenizer_config_path",
        "interrupt_requests",
        "kv_overrides",
        "last_n_tokens_size",
        "logits_all",
        "lora_base",
        "lora_path",
        "main_gpu",
        "mul_mat_q",
        "n_batch",
        "n_ctx",
        "n_gpu_layers",
        "n_threads",
        "n_threads_batch",
        "n_ubatch",
        "numa",
        "offload_kqv",
        "root_path",
        "rope_freq_base",
        "rope_freq_scale",
        "rope_scaling_type",
        "rpc_servers",
        "seed",
        "split_mode",
        "ssl_certfile",
        "ssl_keyfile",
        "tensor_split",
        "type_k",
        "type_v",
        "use_mlock",
        "use_mmap",
        "verbose",
        "vocab_only",
        "yarn_attn_factor",
        "yarn_beta_fast",
        "yarn_beta_slow",
        "yarn_ext_factor",
        "yarn_orig_ctx",
    }
)
# Its option -> the name under which llama.cpp's log is read.
_IN_LOG = {
    "n_ctx": "ctx-size",
    "n_batch": "batch-size",
    "n_ubatch": "ubatch-size",
    "flash_attn": "flash-attn",
    "type_k": "cache-type-k",
    "type_v": "cache-type-v",
}


class LlamaCppPython:
    """`python -m llama_cpp.server` by its own option names (underscores)."""

    name: ClassVar[str] = "llama-cpp-python"
    launchers: ClassVar[tuple[str, ...]] = ("llama-cpp-python",)

    def detect(self, url: str, *, api_key: str | None = None) -> Detected | None:
        """Recognise it by `owned_by: me` in /v1/models, which it alone says."""
        rows = model_rows(url, api_key)
        if not any(row.get("owned_by") == "me" for row in rows):
            return None
        return Detected(
            engine=self.name,
            version=None,
            models=[str(row["id"]) for row in rows],
            options={},
            because="/v1/models is owned by me, as llama-cpp-python answers",
        )

    def command(self, launch: Launch, *, host: str, port: int, workdir: Path) -> Command:
        """Return its process; UsageError for an option that it does not know."""
        start = launch.binary or sys.executable
        argv = [start, "-m", MODULE, "--model", str(model_path(launch))]
        argv += ["--model_alias", launch.served_model, "--host", host, "--port", str(port)]
        return Command(argv=argv + flags(launch.options), env=dict(launch.env or {}), files={})

    def is_healthy(self, url: str) -> bool:
        """True once /v1/models answers; it has no /health."""
        return answers(url, "/v1/models")

    def effective(
        self, launch: Launch, url: str, log: str, *, api_key: str | None = None
    ) -> Options:
        """Return what llama.cpp's log says, under this server's option names."""
        told = llamacpp_log.options(log)
        found = {option: told[name] for option, name in _IN_LOG.items() if name in told}
        for option in ("type_k", "type_v"):
            if option in found:
                found[option] = GGML_TYPES.get(str(found[option]))
        if "flash_attn" in found:
            found["flash_attn"] = found["flash_attn"] == "on"
        return found

    def mismatches(self, asked: Options, effective: Options) -> list[str]:
        """Return the options that run otherwise; the context is rounded up to 256."""
        return [
            f"{option} was asked as {value} but runs as {effective[option]}"
            for option, value in asked.items()
            if option in effective
            and value not in (None, effective[option])
            and not (option == "n_ctx" and effective[option] == _padded(value))
        ]

    def startup_error(self, log: str) -> str | None:
        """Return the reason from the log."""
        return llamacpp_log.reason(log)

    def metrics_url(self, url: str) -> str | None:
        """It has no metrics page."""
        return None

    def counters(self, page: str) -> Counters:
        """It has no metrics."""
        return Counters()

    def launch_spec(self, launch: Launch) -> LaunchSpec:
        """Return its command line."""
        version = self.version(launch, "")
        argv = ["{python}", "-m", MODULE, "--model", "{model}", "--model_alias"]
        argv += [launch.served_model, "--host", "{host}", "--port", "{port}"]
        return LaunchSpec(
            argv=argv + flags(launch.options),
            files={},
            env=dict(launch.env or {}),
            packages=[
                f"llama-cpp-python[server]=={version}" if version else "llama-cpp-python[server]"
            ],
            health_path="/v1/models",
            metrics_path=None,
            start_timeout_s=START_TIMEOUT_S,
            drain_s=DRAIN_S,
        )

    def version(self, launch: Launch, log: str) -> str | None:
        """Return the version of the package beside the kit."""
        try:
            return None if launch.binary else metadata.version("llama-cpp-python")
        except metadata.PackageNotFoundError:
            return None


def flags(options: Options) -> list[str]:
    """Return its command line for `options`; UsageError with the nearest name."""
    line: list[str] = []
    for option, value in options.items():
        if option not in OPTIONS:
            near = difflib.get_close_matches(option.replace("-", "_"), OPTIONS, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise UsageError(f"llama-cpp-python has no option {option!r}{hint}")
        if value is not None:
            line += [f"--{option}", str(value).lower() if isinstance(value, bool) else str(value)]
    return line


def _padded(value: OptionValue) -> OptionValue:
    return -(-value // CONTEXT_PAD) * CONTEXT_PAD if isinstance(value, int) else value
