"""A server that answers with the pages it is given: what an endpoint of any engine says."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@contextmanager
def pages(answers: dict[str, Any]) -> Iterator[str]:
    """Serve `answers` (path -> JSON, or text) and yield the base URL, which ends in /v1."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            answer = answers.get(self.path)
            text = answer if isinstance(answer, str) else json.dumps(answer)
            self.send_response(404 if answer is None else 200)
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/v1"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def models(owner: str, *names: str, **more: Any) -> dict[str, Any]:
    """Return the document of /v1/models."""
    rows = [{"id": name, "object": "model", "owned_by": owner, **more} for name in names]
    return {"object": "list", "data": rows}
