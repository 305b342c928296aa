"""All commands in the order of the help page. Importing them needs neither NumPy nor TVM."""

import sys

import typer

from relay_int8.cli.bench import bench
from relay_int8.cli.calibrate import calibrate
from relay_int8.cli.deploy import deploy
from relay_int8.cli.evaluate import evaluate
from relay_int8.cli.exits import ErrorGroup
from relay_int8.cli.export_qdq import export_qdq
from relay_int8.cli.export_rest import export_rest
from relay_int8.cli.help_page import MAX_WIDTH, GroupedCommand
from relay_int8.cli.inspect import inspect
from relay_int8.cli.plot import plot
from relay_int8.cli.quantize import quantize
from relay_int8.cli.report import report
from relay_int8.cli.run import run
from relay_int8.cli.sensitivity import sensitivity
from relay_int8.cli.serve import serve
from relay_int8.cli.table import table
from relay_int8.cli.tune import tune
from relay_int8.cli.tuning_logs import tuning_logs
from relay_int8.cli.version import version

app = typer.Typer(
    cls=ErrorGroup,
    no_args_is_help=True,
    rich_markup_mode="markdown" if sys.stdout.isatty() else None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": MAX_WIDTH},
    help="""Turn float32 networks into int8 networks that run on Apache TVM.

    quantize reads a model and a few hundred images, or a model that is quantized already, and
    writes one file, the artifact;
    evaluate, bench, inspect, run and deploy take it from there.

    Exit codes: 0 done, 1 an error (the message says what to do), 2 wrong usage, 3 an accuracy or
    a coverage that was asked for is not reached, 130 stopped by Ctrl-C.
    """,
)
app.callback()(version)
commands = (
    quantize,
    calibrate,
    export_qdq,
    export_rest,
    evaluate,
    bench,
    inspect,
    report,
    plot,
    sensitivity,
    run,
    tune,
    serve,
    deploy,
)
for command in commands:
    app.command(cls=GroupedCommand)(command)
app.add_typer(tuning_logs, name="tuning-logs")
app.add_typer(table, name="table")
