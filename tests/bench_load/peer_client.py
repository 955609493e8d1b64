"""A plain streaming client on aiohttp or httpx; runs in a venv of its own, apart from the kit.

    python peer_client.py aiohttp|httpx URL STREAMS REQUESTS_PER_STREAM RAMP_S OUT

Written the way such clients are: one shared session without a connection limit, uvloop, orjson,
one stamp when a read (httpx: a line) returns, then every event is parsed. OUT becomes a JSON
document; OUT.errors has one float64 an event: stamp less the send time inside it, in seconds.
"""

import array
import asyncio
import json
import sys
import time
from pathlib import Path
from typing import Any

import orjson

BODY = {
    "model": "paced",
    "messages": [{"role": "user", "content": "Say hello."}],
    "max_tokens": 160,
    "stream": True,
    "stream_options": {"include_usage": True},
}


class Answers:
    """What every stream adds to: stamps and send times of content events, TTFT, token counts."""

    def __init__(self) -> None:
        self.stamps_ns: list[int] = []
        self.sent_ns: list[str] = []
        self.ttfts_s: list[float] = []
        self.num_characters = 0
        self.num_tokens = 0

    def take(self, payload: bytes | str, stamp_ns: int) -> bool:
        """Parse one event's data; True where it has content."""
        document = orjson.loads(payload)
        if usage := document.get("usage"):
            self.num_tokens += usage["completion_tokens"]
        for choice in document["choices"]:
            if content := choice["delta"].get("content"):
                self.num_characters += len(content)
                self.stamps_ns.append(stamp_ns)
                self.sent_ns.append(document["sent_ns"])
                return True
        return False


async def aiohttp_stream(session: Any, url: str, answers: Answers) -> None:
    """Send one request; stamp each read, then split it into events."""
    sent_ns, is_first, rest = time.monotonic_ns(), True, b""
    async with session.post(url, json=BODY) as reply:
        async for data in reply.content.iter_any():
            stamp_ns = time.monotonic_ns()
            *events, rest = (rest + data).split(b"\n\n")
            for event in events:
                payload = event.removeprefix(b"data: ")
                if payload != b"[DONE]" and answers.take(payload, stamp_ns) and is_first:
                    is_first = False
                    answers.ttfts_s.append((stamp_ns - sent_ns) / 1e9)


async def httpx_stream(session: Any, url: str, answers: Answers) -> None:
    """Send one request; stamp each line."""
    sent_ns, is_first = time.monotonic_ns(), True
    async with session.stream("POST", url, json=BODY) as reply:
        async for line in reply.aiter_lines():
            stamp_ns = time.monotonic_ns()
            if not line.startswith("data: "):
                continue
            payload = line.removeprefix("data: ")
            if payload != "[DONE]" and answers.take(payload, stamp_ns) and is_first:
                is_first = False
                answers.ttfts_s.append((stamp_ns - sent_ns) / 1e9)


async def run(
    kind: str, url: str, num_streams: int, per_stream: int, ramp_s: float
) -> dict[str, Any]:
    """Run all streams; CPU time is that of this process while it sends and reads."""
    answers = Answers()
    if kind == "aiohttp":
        import aiohttp

        session: Any = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0), timeout=aiohttp.ClientTimeout(total=None)
        )
        send, version = aiohttp_stream, aiohttp.__version__
    else:
        import httpx

        limits = httpx.Limits(max_connections=None, max_keepalive_connections=None)
        session = httpx.AsyncClient(limits=limits, timeout=None)
        send, version = httpx_stream, httpx.__version__

    async def stream(number: int) -> None:
        await asyncio.sleep(ramp_s * number / num_streams)
        for _ in range(per_stream):
            await send(session, f"{url}/chat/completions", answers)

    async with session:
        began_s, began_cpu_s = time.monotonic(), time.process_time()
        await asyncio.gather(*(stream(number) for number in range(num_streams)))
        cpu_s, elapsed_s = time.process_time() - began_cpu_s, time.monotonic() - began_s
    sent_ns = map(int, answers.sent_ns)
    errors = [(a - b) / 1e9 for a, b in zip(answers.stamps_ns, sent_ns, strict=True)]
    return {
        "version": version,
        "cpu_s": cpu_s,
        "elapsed_s": elapsed_s,
        "num_tokens": answers.num_tokens,
        "ttft_s": sum(answers.ttfts_s) / len(answers.ttfts_s),
        "errors": errors,
    }


def main() -> None:
    """Run as the module docstring says."""
    import uvloop

    kind, url, num_streams, per_stream, ramp_s, out = sys.argv[1:]
    load = run(kind, url, int(num_streams), int(per_stream), float(ramp_s))
    found = uvloop.run(load)
    errors = array.array("d", found.pop("errors"))
    Path(f"{out}.errors").write_bytes(errors.tobytes())
    Path(out).write_text(json.dumps(found), encoding="utf-8")


if __name__ == "__main__":
    main()
