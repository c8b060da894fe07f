"""The command line: each command parses, calls one library function and prints.

Results go to stdout, progress to stderr. Nothing heavy is imported before a command needs it.
"""

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

import earl
from earl.cli import bench as cli_bench
from earl.cli import client as cli_client
from earl.cli import data as cli_data
from earl.cli import forget as cli_forget
from earl.cli import learn as cli_learn
from earl.cli import list as cli_list
from earl.cli import predict as cli_predict
from earl.cli import report as cli_report
from earl.cli import reproduce as cli_reproduce
from earl.cli import results as cli_results
from earl.cli import run as cli_run
from earl.cli import serve as cli_serve
from earl.cli import settings as cli_settings
from earl.cli import show as cli_show
from earl.cli import stream as cli_stream
from earl.cli import sweep as cli_sweep
from earl.cli.end import outcome
from earl.cli.options import Json, LightGroup, Out, Seed
from earl.cli.run import print_results, result, show_progress
from earl.cli.text import answer, print_json, say
from earl.errors import InvalidSetting
from earl.experiments.machine import calm_idle_threads

app = typer.Typer(
    cls=LightGroup,
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # importing rich would take as long as all the rest
    context_settings={"max_content_width": 120},
    help="Online continual learning: images arrive once, questions come at any moment.",
)
app.add_typer(cli_stream.app, name="stream")
app.add_typer(cli_data.app, name="data")
app.add_typer(cli_serve.app, name="token")
app.add_typer(cli_client.app, name="client")


def print_version(wanted: bool) -> None:
    if wanted:
        say(f"earl {earl.__version__}")
        raise typer.Exit


@app.callback()
def check_launcher(
    context: typer.Context,
    version: Annotated[
        bool,
        typer.Option("--version", callback=print_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    """Raise if torchrun repeats a command that does not divide its work."""
    several = "TORCHELASTIC_RUN_ID" in os.environ and os.environ["WORLD_SIZE"] != "1"
    if several and context.invoked_subcommand not in ("run", "resume"):
        alone = f"earl {context.invoked_subcommand}"
        raise InvalidSetting(f"torchrun is for earl run and earl resume; start {alone} alone")


@app.command()
def demo(out: Out = Path("earl-demo"), seed: Seed = 1, as_json: Json = False) -> None:
    """Compare EARL with experience replay on images, within a minute."""
    from earl.cli.demo import demo

    runs, picture = demo(out, seed, lambda moments, name: show_progress(moments, name, out))
    if as_json:
        print_json({"picture": str(picture), "runs": [result(run) for run in runs]})
        return
    print_results(runs)
    say(f"\nAccuracy curves: {picture}")
    say("Next: earl run --method earl --dataset digits --stream disjoint --set k=25")


app.command()(cli_learn.learn)
app.command()(cli_predict.predict)
app.command()(cli_show.show)
app.command()(cli_serve.serve)
app.command()(cli_forget.forget)
app.command()(cli_run.run)
app.command()(cli_run.resume)
app.command()(cli_settings.settings)


@app.command()
def doctor(as_json: Json = False) -> None:
    """Check that everything works here; exit with 1 if not."""
    from earl.cli.doctor import examine

    findings = examine()
    lines = [f"{'ok ' if f.ok else 'BAD'} {f.what:<10} {f.found}" for f in findings]
    answer(as_json, {f.what: {"ok": f.ok, "found": f.found} for f in findings}, *lines)
    if not all(f.ok for f in findings):
        raise typer.Exit(1)


# Help lists commands in this order, after those above.
app.command()(cli_sweep.sweep)
app.command()(cli_reproduce.reproduce)
app.command()(cli_report.table)
app.command()(cli_report.figure)
app.command()(cli_report.report)
app.command()(cli_report.export)
app.command()(cli_results.results)
app.command()(cli_bench.bench)
app.add_typer(cli_list.app, name="list")


def main() -> None:
    """Run the command line; whatever goes wrong is one line on stderr and an exit code."""
    calm_idle_threads(os.environ)
    sys.exit(outcome(app, sys.argv[1:]))
