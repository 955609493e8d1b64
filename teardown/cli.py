"""The `teardown` command: a lazy table of verbs; a verb's package is imported when it is called."""

import importlib
import json
import signal
import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

import click

from teardown.errors import FeatureMissing, TeardownError


class Verb(NamedTuple):
    """Where a verb lives and what it is for; `help` is what `teardown --help` shows."""

    target: str
    help: str


VERBS: dict[str, Verb] = {
    "demo": Verb("teardown.verbs:demo", "a whole engagement on the embedded engine"),
    "init": Verb("teardown.verbs:init", "probe an endpoint; write engagement.yaml and intake.md"),
    "doctor": Verb("teardown.verbs:doctor", "can this be measured, what each missing right costs"),
    "measure": Verb("teardown.verbs:measure", "send the workload, write down what came back"),
    "worker": Verb("teardown.verbs:worker", "a load worker on another host"),
    "import": Verb("teardown.verbs:import_", "another tool's result, a recording, gateway logs"),
    "requests": Verb("teardown.verbs:requests", "the requests of a run as a table"),
    "diagnose": Verb("teardown.verbs:diagnose", "attribute the time of a run"),
    "plan": Verb("tuning.verbs:plan", "candidate changes with predicted gains"),
    "tune": Verb("tuning.verbs:tune", "trials behind the oracle, a verdict"),
    "emit": Verb("iac.verbs:emit", "the accepted stack as files that a team can run"),
    "report": Verb("reports.verbs:report", "the before/after report"),
    "run": Verb("teardown.verbs:run", "all of the above, resuming where it stopped"),
    "compare": Verb("teardown.verbs:compare", "paired comparison of two runs"),
    "bakeoff": Verb("tuning.verbs:bakeoff", "several stacks, one schedule"),
    "forget": Verb("teardown.verbs:forget", "delete every stored text, and prove it"),
    "validate": Verb("tuning.verbs:validate", "what an engine version makes of these flags"),
    "kv": Verb("kv_quant.verbs:kv", "KV-cache sizes, codecs, picking, quality"),
}


class LazyGroup(click.Group):
    """A group whose commands are looked up in `VERBS` and imported one at a time."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return every verb in the order of an engagement."""
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the package of one verb; None for a word that is no verb."""
        verb = VERBS.get(cmd_name)
        if verb is None:
            return None
        module_name, function = verb.target.split(":")
        command = getattr(importlib.import_module(module_name), function)
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Name the nearest verb when a word is none."""
        if args and args[0] not in VERBS and not args[0].startswith("-"):
            import difflib

            near = difflib.get_close_matches(args[0], VERBS, n=1)
            hint = f"did you mean `{near[0]}`?" if near else "`teardown --help` lists the verbs"
            raise click.UsageError(f"there is no verb {args[0]!r}; {hint}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the table of verbs without importing any of them."""
        with formatter.section("Verbs"):
            formatter.write_dl([(name, verb.help) for name, verb in VERBS.items()])


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="teardown-kit", prog_name="teardown")
def command() -> None:
    """Measure a model-serving stack, attribute its time, tune it, prove the gain, hand it over.

    \b
    teardown demo                            see it work, on an engine it brings along
    teardown init DIR --url http://host/v1   begin an engagement
    teardown run DIR                         every step in order, resuming where it stopped
    """


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command and leave with the exit code of ARCHITECTURE.md; never a traceback."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # ends as Ctrl-C does: tidily
    try:
        command.main(arguments, prog_name="teardown", standalone_mode=False)
    except click.exceptions.Exit as exit_:
        sys.exit(exit_.exit_code)
    except click.ClickException as error:
        code = 2 if isinstance(error, click.UsageError) else error.exit_code
        _fail(arguments, error.format_message(), code)
    except (click.Abort, KeyboardInterrupt):
        _fail(arguments, "interrupted; what was measured is saved", 130)
    except TeardownError as error:
        _fail([] if error.has_document else arguments, str(error), error.exit_code)
    except ModuleNotFoundError as error:
        missing = FeatureMissing(
            f"the package {error.name!r} is not installed here; "
            "`pip install 'teardown-kit[engine,charts]'` brings what the verbs need"
        )
        _fail(arguments, str(missing), missing.exit_code)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(0)
    except Exception as error:
        if "--debug" in arguments:
            raise
        _fail(arguments, _bug_sentence(error), 1)


def _fail(arguments: Sequence[str], message: str, code: int) -> None:
    """Write one sentence to standard error, and with --json one document to standard output."""
    if "--json" in arguments:
        document: dict[str, Any] = {
            "schema": "teardown.error/1",
            "error": message,
            "exit_code": code,
        }
        click.echo(json.dumps(document))
    click.echo(f"teardown: {message}", err=True)
    sys.exit(code)


def _bug_sentence(error: Exception) -> str:
    import traceback

    where = traceback.extract_tb(error.__traceback__)[-1]
    return (
        f"a fault of the kit: {type(error).__name__}: {error} "
        f"({where.filename.rsplit('/', 1)[-1]}:{where.lineno}); please report it"
    )


if __name__ == "__main__":
    main()
