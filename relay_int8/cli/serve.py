"""``relay-int8 serve``: let others run artifacts on this computer."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from relay_int8 import Address, ServeOptions
from relay_int8 import serve as serve_rpc
from relay_int8.cli.options import MAX_THREADS

KEY_VARIABLE = "RELAY_INT8_KEY"


def serve(
    host: Annotated[
        str, typer.Option(help="Address to listen on; any but this computer's own needs a key.")
    ] = ServeOptions.host,
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port to listen on; 0 is any that is free.")
    ] = ServeOptions.port,
    key: Annotated[
        str,
        typer.Option(
            envvar=KEY_VARIABLE,
            help="Word that clients must know; for a tracker or a proxy, the name of this kind "
            "of device.",
        ),
    ] = "",
    tracker: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="Tracker to register with.")
    ] = None,
    proxy: Annotated[
        str | None,
        typer.Option(metavar="HOST:PORT", help="Proxy to connect to, instead of listening."),
    ] = None,
    allow_network: Annotated[
        bool,
        typer.Option(
            "--allow-network",
            help="Let other computers connect. Who knows the key can run any code as you.",
        ),
    ] = False,
    work_dir: Annotated[
        Path | None,
        typer.Option(help="Folder for uploads; made at the start, removed at the end."),
    ] = None,
    threads: Annotated[
        int | None,
        typer.Option(
            min=1, max=MAX_THREADS, help="Threads of networks; the runtime's choice if absent."
        ),
    ] = None,
) -> None:
    """Let others run artifacts on this computer, until Ctrl-C.

    Listens on 127.0.0.1 only, unless told otherwise. For example, on a device in a rack:
    relay-int8 serve --tracker 10.0.0.1:9190 --key epyc --host 10.0.0.7 --allow-network
    """
    options = ServeOptions(
        host=host,
        port=port,
        key=key,
        tracker=Address.parse(tracker) if tracker else None,
        proxy=Address.parse(proxy) if proxy else None,
        allow_network=allow_network,
        work_dir=work_dir,
        threads=threads,
    )
    serve_rpc(options, typer.echo)
