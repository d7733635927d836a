"""The server of the page, which answers requests from this computer with the right address only."""

from __future__ import annotations

import hmac
import json
import math
import secrets
import sys
import threading
from collections.abc import Callable, Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from typing import Any
from urllib.parse import parse_qs

from entity_env.errors import FAILURES, EntityEnvError, SettingError, shorten
from entity_env.viewer.messages import to_message
from entity_env.viewer.source import Source

__all__ = ["Viewer"]

_HERE = "127.0.0.1"
_MOST_BYTES = 1 << 20
"""The largest number of bytes in a request of the page."""
_LARGEST, _MOST_ZOOM = 1 << 31, 100
"""The largest number in a request, and the largest magnification."""
_TYPES = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}
_HEADERS = {
    # Allow no external content and no inline scripts, because names of entities may be untrusted.
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "Cache-Control": "no-store",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


class Viewer:
    """A server that shows a source in a browser on this computer.

    with Viewer(open_source("minesweeper")) as viewer:
        print(viewer.address)

    Args:
        source: The source, which is closed with the viewer.
        port: Port of the address; 0 takes a free port.

    Attributes:
        address: Address for the browser, with a random word that keeps other pages and other users
            of this computer out.
    """

    def __init__(self, source: Source, port: int = 0) -> None:
        self.source = source
        self._lock = threading.Lock()
        self._token = secrets.token_urlsafe(18)
        handler = type("Handler", (_Handler,), {"viewer": self})
        try:
            self._server = _Server((_HERE, port), handler)
        except OSError as error:
            raise SettingError(f"no server can be started on port {port}: {error}") from error
        self.port = int(self._server.server_address[1])
        self.address = f"http://{_HERE}:{self.port}/{self._token}/"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def __enter__(self) -> Viewer:
        """Return the viewer, to be closed at the end of a ``with`` block."""
        return self

    def __exit__(self, *error: object) -> None:
        """Close."""
        self.close()

    def close(self) -> None:
        """Stop the server, and close the source."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
        with self._lock:
            self.source.close()

    def is_for_us(self, host: str | None, origin: str | None) -> bool:
        """Return True for the headers of a request from this computer's own page.

        A page from the internet may reach the port under another host name.
        """
        hosts = {f"{name}:{self.port}" for name in (_HERE, "localhost")}
        return host in hosts and origin in {None, *(f"http://{name}" for name in hosts)}

    def knows(self, token: str) -> bool:
        """Return True for the word of the address."""
        return hmac.compare_digest(token.encode(), self._token.encode())

    def answer(self, name: str, given: Mapping[str, Any]) -> Any:
        """Return the answer to a request of the page, one at a time.

        Raises:
            KeyError: The request is unknown.
        """
        question: Callable[[Source, Mapping[str, Any]], Any] = _QUESTIONS[name]
        if name in _CHANGES and not self.source.is_live:
            raise SettingError("recorded episodes cannot be played")
        with self._lock:
            return question(self.source, given)


def _whole(given: Mapping[str, Any], name: str) -> int:
    """Return a number of the request."""
    try:
        found = int(given.get(name, 0))
    except (TypeError, ValueError, OverflowError):
        found = _LARGEST + 1
    if abs(found) > _LARGEST:
        raise SettingError(
            f"{name} is not a number",
            expected=f"a whole number up to {_LARGEST:,}",
            received=shorten(given[name]),
        )
    return found


def _zoom(given: Mapping[str, Any]) -> float:
    """Return the magnification of a scene."""
    try:
        zoom = float(given.get("zoom", 1.0))
    except (TypeError, ValueError, OverflowError):
        zoom = math.nan
    if not 1 <= zoom <= _MOST_ZOOM:
        raise SettingError(
            "zoom is not valid", expected=f"1 to {_MOST_ZOOM}", received=shorten(given["zoom"])
        )
    return zoom


def _seat(source: Source, given: Mapping[str, Any]) -> int:
    """Return the number of a seat that exists."""
    seat, count = _whole(given, "seat"), max(len(source.about()["seats"]), 1)
    if not 0 <= seat < count:
        raise SettingError("the seat does not exist", expected=f"0 to {count - 1}", received=seat)
    return seat


def _view(source: Source, given: Mapping[str, Any]) -> tuple[int, float, str | None]:
    """Return the seat, the magnification, and the overlay of a picture or None for none."""
    layer = str(given.get("layer", "")) if given.get("picture") else None
    return _seat(source, given), _zoom(given), layer


def _advance(source: Source, given: Mapping[str, Any]) -> dict[str, Any]:
    """Play a step, and return beside the episode the frame that a seat sees then."""
    view, chosen = _view(source, given), given.get("chosen", {})
    if not isinstance(chosen, Mapping):
        raise SettingError(
            "the choices are not valid",
            expected="for each seat a JSON object of its actions",
            received=shorten(chosen),
        )
    episode = source.advance(chosen)
    frame = source.frame(episode["number"], episode["length"] - 1, *view)
    return {**episode, "frame": frame}


_READS: dict[str, Callable[[Source, Mapping[str, Any]], Any]] = {
    "about": lambda source, given: source.about(),
    "episode": lambda source, given: source.episode(_whole(given, "episode")),
    "frame": lambda source, given: source.frame(
        _whole(given, "episode"), _whole(given, "step"), *_view(source, given)
    ),
    "curve": lambda source, given: source.curve(_whole(given, "episode"), _seat(source, given)),
}
_CHANGES: dict[str, Callable[[Source, Mapping[str, Any]], Any]] = {
    "advance": _advance,
    "restart": lambda source, given: source.restart(),
}
_QUESTIONS = _READS | _CHANGES


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore errors when a page is closed during an answer."""
        if not isinstance(sys.exception(), ConnectionError | TimeoutError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    viewer: Viewer
    protocol_version = "HTTP/1.1"
    timeout = 60
    # Send answers at once; otherwise each waits 40 ms for the one before it.
    disable_nagle_algorithm = True
    wbufsize = -1
    server_version = "viewer"
    sys_version = ""

    def do_GET(self) -> None:
        """Send a file of the page, or the answer to a request."""
        if self._is_known():
            given = parse_qs(self.path.partition("?")[2])
            query = {key: values[-1] for key, values in given.items()}
            self._handle(_READS, query)

    def do_POST(self) -> None:
        """Play."""
        if not self._is_known():
            return
        text = self.headers.get("Content-Length", "")
        is_number = text.isascii() and text.isdecimal() and len(text) < 20
        length = int(text) if is_number else -1
        if not 0 <= length <= _MOST_BYTES:
            self._refuse(HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
            return
        # A form of another page cannot send JSON.
        if self.headers.get_content_type() != "application/json":
            self._refuse(HTTPStatus.UNSUPPORTED_MEDIA_TYPE)
            return
        try:
            given = json.loads(self.rfile.read(length) or b"{}")
        except (ValueError, RecursionError):
            given = None
        if not isinstance(given, dict):
            self._refuse(HTTPStatus.BAD_REQUEST)
            return
        self._handle(_CHANGES, given)

    def log_message(self, format: str, *args: Any) -> None:
        """Print nothing."""

    def _is_known(self) -> bool:
        """Return True if a request has the word of the address, or send an error."""
        headers, (token, slash, _) = self.headers, self._parts()
        if not self.viewer.is_for_us(headers.get("Host"), headers.get("Origin")):
            self._refuse(HTTPStatus.FORBIDDEN)
            return False
        if not slash or not self.viewer.knows(token):
            self._refuse(HTTPStatus.NOT_FOUND)
            return False
        return True

    def _parts(self) -> tuple[str, str, str]:
        """Return the word of the address, a slash, and the rest."""
        return self.path.partition("?")[0].removeprefix("/").partition("/")

    def _handle(self, questions: Mapping[str, Any], given: Mapping[str, Any]) -> None:
        kind, _, name = self._parts()[2].rpartition("/")
        if kind == "api" and name in questions:
            self._answer(name, given)
        elif kind == "" and questions is _READS:
            self._send_file(name or "index.html")
        else:
            self._refuse(HTTPStatus.NOT_FOUND)

    def _answer(self, name: str, given: Mapping[str, Any]) -> None:
        try:
            status, found = HTTPStatus.OK, self.viewer.answer(name, given)
        except EntityEnvError as error:
            status, found = HTTPStatus.BAD_REQUEST, {"error": str(error)}
        except FAILURES as error:  # an environment or an agent may raise anything
            what = f"{type(error).__name__}: {error}"
            status, found = HTTPStatus.INTERNAL_SERVER_ERROR, {"error": what}
        self._send(status, "application/octet-stream", to_message(found))

    def _send_file(self, name: str) -> None:
        ending = name.rpartition(".")[2]
        page = next(
            (file for file in files(__package__).joinpath("pages").iterdir() if file.name == name),
            None,
        )
        if page is None or ending not in _TYPES:
            self._refuse(HTTPStatus.NOT_FOUND)
            return
        self._send(HTTPStatus.OK, _TYPES[ending], page.read_bytes())

    def _refuse(self, status: HTTPStatus) -> None:
        self.close_connection = True  # the rest of the request is not read
        self._send(status, "text/plain; charset=utf-8", status.phrase.encode())

    def _send(self, status: HTTPStatus, kind: str, body: bytes) -> None:
        try:
            self.send_response(status)
            for name, value in _HEADERS.items():
                self.send_header(name, value)
            if self.close_connection:
                self.send_header("Connection", "close")
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
            self.wfile.flush()
        except (BrokenPipeError, ConnectionResetError):  # the page was closed
            self.close_connection = True
