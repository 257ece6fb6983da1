"""A web server for a page on this machine alone."""

import sys
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from vitspeech.errors import InputError

TYPES = {
    ".mjs": "text/javascript",
    ".js": "text/javascript",
    ".wasm": "application/wasm",
    ".onnx": "application/octet-stream",
}


class Handler(SimpleHTTPRequestHandler):
    """Static files, not cached, with the types that browsers demand of modules; requests are not logged."""

    extensions_map = SimpleHTTPRequestHandler.extensions_map | TYPES

    def end_headers(self) -> None:
        """Add the headers of all answers."""
        self.send_header("Cache-Control", "no-cache")
        super().end_headers()

    def log_message(self, *_: object) -> None:
        """Print nothing."""


class Server(ThreadingHTTPServer):
    """A server that prints nothing if a browser closes a connection, as it does when a page is reloaded."""

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Print the traceback of other errors."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


def server(folder: Path, port: int) -> ThreadingHTTPServer:
    """A server of a folder's files on 127.0.0.1, which listens from now on; the folder may be written later.

    Args:
        folder: The folder.
        port: The port; 0 takes a free one, see `server_port`.

    Raises:
        InputError: If the port is taken.
    """
    try:
        return Server(("127.0.0.1", port), partial(Handler, directory=str(folder)))
    except OSError as error:
        raise InputError(f"--port {port}: {error.strerror}; give another one") from None
