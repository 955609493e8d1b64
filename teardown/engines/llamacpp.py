"""llama.cpp's own server: as xllamacpp packages it, or a `llama-server` binary."""

import difflib
import json
import shutil
import sys
from importlib import metadata
from pathlib import Path
from typing import ClassVar, get_args

from teardown.engines import llamacpp_log, metrics_page, serve_xllamacpp
from teardown.engines.embedded import EMBEDDED_NAME, embedded_model
from teardown.engines.pages import answers, model_rows, page, root_of
from teardown.engines.protocol import Command, Counters, Detected, Launch
from teardown.errors import FeatureMissing, UsageError
from teardown.records import LaunchSpec, Options
from teardown.records.stack import OptionValue

CONTEXT_PAD = 256  # llama_context rounds a sequence's context up to this (2026-10)
DEFAULT_BATCH = 2048  # llama.cpp's batch-size, which bounds ubatch-size
START_TIMEOUT_S = 120.0
DRAIN_S = 30.0
OLD_BUILD = "b0-unknown"  # xllamacpp's build_info: the version is the package's alone
SERVE = Path(serve_xllamacpp.__file__)
# Options of llama-server that are switched on by their flag and have no `--no-` form.
FLAG_ONLY = {"metrics", "swa-full"}
# Options of llama-server that take on or off as a word.
WORD_VALUED = {"fit", "flash-attn"}


class LlamaCpp:
    """llama.cpp's server by its own option names; see `serve_xllamacpp.OPTIONS`."""

    name: ClassVar[str] = "llama.cpp"
    launchers: ClassVar[tuple[str, ...]] = ("xllamacpp", "llama-server")

    def detect(self, url: str, *, api_key: str | None = None) -> Detected | None:
        """Recognise it by /props, or by `owned_by` where /props is closed."""
        rows = model_rows(url, api_key)
        models = [str(row["id"]) for row in rows]
        props = page(url, "/props", api_key)
        if isinstance(props, dict) and "total_slots" in props:
            build = str(props.get("build_info") or "")
            return Detected(
                engine=self.name,
                version=None if build in ("", OLD_BUILD) else build,
                models=models or [str(props.get("model_alias") or props.get("model_path"))],
                options=_from_props(props),
                because="/props has total_slots, as llama.cpp's server has",
            )
        if any(row.get("owned_by") == "llamacpp" for row in rows):
            return Detected(
                engine=self.name,
                version=None,
                models=models,
                options={},
                because="/v1/models is owned by llamacpp",
            )
        return None

    def command(self, launch: Launch, *, host: str, port: int, workdir: Path) -> Command:
        """Return the server's process; UsageError for an option that xllamacpp does not take."""
        model = str(model_path(launch))
        if launch.launcher == "llama-server":
            argv = [_binary(launch), "--model", model, "--alias", launch.served_model]
            argv += ["--host", host, "--port", str(port), *server_flags(launch.options)]
            return Command(argv=argv, env=dict(launch.env or {}), files={})
        check_options(launch.options)
        config = {
            "model": model,
            "alias": launch.served_model,
            "host": host,
            "port": port,
            "drain_s": DRAIN_S,
            "options": launch.options,
        }
        return Command(
            argv=[sys.executable, str(SERVE), str(workdir / "engine.json")],
            env=dict(launch.env or {}),
            files={"engine.json": json.dumps(config, indent=2) + "\n"},
        )

    def is_healthy(self, url: str) -> bool:
        """True once /health answers with success; 503 while the model loads."""
        return answers(url, "/health")

    def effective(
        self, launch: Launch, url: str, log: str, *, api_key: str | None = None
    ) -> Options:
        """Return what the log and /props say; cache-prompt and a few others are said by neither."""
        props = page(url, "/props", api_key)
        found = llamacpp_log.options(log)
        if isinstance(props, dict):
            found = {**_from_props(props), **found}
        return found

    def mismatches(self, asked: Options, effective: Options) -> list[str]:
        """Return the options that run otherwise than llama.cpp's own rounding explains."""
        return [
            f"{option} was asked as {value} but runs as {effective[option]}"
            for option, value in asked.items()
            if option in effective
            and value is not None
            and not _is_as_asked(option, value, effective[option], asked)
        ]

    def startup_error(self, log: str) -> str | None:
        """Return the reason from the log."""
        return llamacpp_log.reason(log)

    def metrics_url(self, url: str) -> str | None:
        """Return /metrics beside /v1; llama-server has it only with `--metrics`."""
        return root_of(url) + "/metrics"

    def counters(self, page: str) -> Counters:
        """Read one metrics page; prompt tokens include those that came from the cache."""
        return metrics_page.counters(self.name, page)

    def launch_spec(self, launch: Launch) -> LaunchSpec:
        """Return the serve program with its configuration, or the llama-server command."""
        if launch.launcher == "llama-server":
            argv = [launch.binary or "llama-server", "--model", "{model}"]
            argv += ["--alias", launch.served_model, "--host", "{host}", "--port", "{port}"]
            argv += server_flags(launch.options)
            files, packages = {}, list[str]()
        else:
            check_options(launch.options)
            config = {
                "model": "{model}",
                "alias": launch.served_model,
                "host": "{host}",
                "port": "{port}",
                "drain_s": DRAIN_S,
                "options": launch.options,
            }
            argv = ["{python}", "{root}/serve.py", "{root}/engine.json"]
            files = {
                "serve.py": SERVE.read_text(encoding="utf-8"),
                "engine.json": json.dumps(config, indent=2) + "\n",
            }
            packages = [f"xllamacpp=={_package_version() or _missing()}"]
        return LaunchSpec(
            argv=argv,
            files=files,
            env=dict(launch.env or {}),
            packages=packages,
            health_path="/health",
            metrics_path="/metrics",
            start_timeout_s=START_TIMEOUT_S,
            drain_s=DRAIN_S,
        )

    def version(self, launch: Launch, log: str) -> str | None:
        """Return the package's version, or the build number that llama-server prints."""
        if launch.launcher == "xllamacpp":
            return _package_version()
        return llamacpp_log.build(log)


def model_path(launch: Launch) -> Path:
    """Return the model's file; the embedded one where the launch names none."""
    if launch.model in (None, EMBEDDED_NAME):
        return embedded_model(None)
    return Path(str(launch.model)).expanduser().resolve()


def check_options(options: Options) -> None:
    """UsageError for an option that the serve program does not know, with the nearest name."""
    for option in options:
        if option not in serve_xllamacpp.OPTIONS:
            near = difflib.get_close_matches(option, serve_xllamacpp.OPTIONS, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise UsageError(f"llama.cpp (xllamacpp) has no option {option!r}{hint}")


def server_flags(options: Options) -> list[str]:
    """Return llama-server's flags; the log is opened to the level that names what runs."""
    flags = ["--log-verbosity", "4"]
    if "metrics" not in options:
        flags.append("--metrics")
    for option, value in options.items():
        if value is None:
            continue
        if isinstance(value, bool) and option not in WORD_VALUED:
            if value or option not in FLAG_ONLY:
                flags.append(f"--{option}" if value else f"--no-{option}")
            continue
        word = {True: "on", False: "off"}.get(value, value) if isinstance(value, bool) else value
        flags += [f"--{option}", str(word)]
    return flags


def _from_props(props: dict[str, object]) -> Options:
    found: Options = {}
    scalar = get_args(OptionValue)
    for key, option in (
        ("total_slots", "parallel"),
        ("endpoint_metrics", "metrics"),
        ("endpoint_slots", "slots"),
    ):
        value = props.get(key)
        if isinstance(value, scalar) and value is not None:
            found[option] = value
    settings = props.get("default_generation_settings")
    if isinstance(settings, dict) and isinstance(settings.get("n_ctx"), int):
        found["ctx-size-per-slot"] = settings["n_ctx"]
    return found


def _is_as_asked(option: str, value: OptionValue, runs: OptionValue, asked: Options) -> bool:
    """True when `runs` is `value` after what llama.cpp does to it (llama-context.cpp, 2026-10)."""
    if value == runs:
        return True
    if option == "flash-attn":
        word = {True: "on", False: "off"}[value] if isinstance(value, bool) else value
        return word in ("auto", runs)
    if option in ("threads", "threads-batch", "parallel", "cache-ram", "ctx-checkpoints"):
        return isinstance(value, int) and value < 0  # the engine's own choice
    if option == "ctx-size" and isinstance(value, int) and isinstance(runs, int):
        return value == 0 or runs == rounded_context(value, asked)
    if option in ("batch-size", "ubatch-size") and isinstance(value, int):
        batch = value if option == "batch-size" else asked.get("batch-size") or DEFAULT_BATCH
        caps = [batch, asked.get("ctx-size")]
        return runs == min([value, *(c for c in caps if isinstance(c, int) and c > 0)])
    return False


def rounded_context(ctx_size: int, asked: Options) -> int:
    """Return the total context that llama.cpp makes of `ctx_size`: 1000 over 3 slots is 1536."""
    slots = asked.get("parallel")
    padded = -(-ctx_size // CONTEXT_PAD) * CONTEXT_PAD
    if asked.get("kv-unified") or not isinstance(slots, int) or slots <= 1:
        return padded
    return -(-(padded // slots) // CONTEXT_PAD) * CONTEXT_PAD * slots


def _binary(launch: Launch) -> str:
    found = launch.binary or shutil.which("llama-server")
    if found is None:
        raise FeatureMissing(
            "no `llama-server` on PATH; name it in target.launch.binary, or launch with xllamacpp"
        )
    return found


def _package_version() -> str | None:
    try:
        return metadata.version("xllamacpp")
    except metadata.PackageNotFoundError:
        return None


def _missing() -> str:
    raise FeatureMissing("xllamacpp is not installed; pip install 'teardown-kit[engine]'")
