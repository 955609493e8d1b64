"""A forward proxy on the loopback address: absolute-form requests and CONNECT, names of its own.

    with FakeProxy({"engine.test": ("127.0.0.1", fake.port)}) as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy.url)

One thread accepts, one serves each connection; what it was asked is in `heads`.
"""

import contextlib
import select
import socket
import threading
from typing import Self
from urllib.parse import urlsplit

REFUSAL = b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n"


class FakeProxy:
    """Forwards to the addresses in `hosts` by name; asks for `authorization` where it is given."""

    def __init__(
        self, hosts: dict[str, tuple[str, int]], *, authorization: str | None = None
    ) -> None:
        self._hosts = hosts
        self._authorization = authorization
        self._open: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self.heads: list[str] = []

    def __enter__(self) -> Self:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._spawn(self._accept)
        return self

    def __exit__(self, *_: object) -> None:
        for connection in (self._listener, *self._open):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
            connection.close()
        for thread in self._threads:
            thread.join(10)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def _spawn(self, target: object, *args: object) -> None:
        thread = threading.Thread(target=target, args=args, daemon=True)  # type: ignore[arg-type]
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self._open.append(connection)
            self._spawn(self._serve, connection)

    def _serve(self, client: socket.socket) -> None:
        with contextlib.suppress(OSError, KeyError, ValueError):
            raw = b""
            while b"\r\n\r\n" not in raw:
                raw += client.recv(65536)
            head, _, rest = raw.partition(b"\r\n\r\n")
            self.heads.append(head.decode("latin-1"))
            allowed = f"Proxy-Authorization: {self._authorization}"
            if self._authorization is not None and allowed not in self.heads[-1]:
                client.sendall(REFUSAL)
                return
            method, target, _ = self.heads[-1].split("\r\n")[0].split(" ")
            is_tunnel = method == "CONNECT"
            parts = urlsplit(f"//{target}" if is_tunnel else target)
            server = socket.create_connection(self._hosts[parts.hostname or ""])
            self._open.append(server)
            if is_tunnel:
                client.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
            else:
                own = head.replace(target.encode(), parts.path.encode(), 1)
                server.sendall(own + b"\r\n\r\n" + rest)
            _relay(client, server)


def _relay(client: socket.socket, server: socket.socket) -> None:
    """Pass bytes both ways until either side ends."""
    other = {client: server, server: client}
    while True:
        for source in select.select([client, server], [], [])[0]:
            data = source.recv(65536)
            if not data:
                for connection in other:
                    connection.shutdown(socket.SHUT_RDWR)
                return
            other[source].sendall(data)
