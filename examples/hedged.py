"""Hedged requests: ask three servers, take the first success, survive a kill in the middle.

Each request goes to three real HTTP servers of different speed at once, as a durable group: the
order in which they answered is a fact of the journal. The client gets SIGKILL half-way and starts
again; what was decided stays decided, in the same order, and nothing that settled is fetched twice.

    python examples/hedged.py [--losers run_to_completion | cancel] [--requests N]

With ``cancel`` a loser's request is given up as soon as there is a winner; with
``run_to_completion`` its answer comes too, as a later rank.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Generator, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, cast

import trio
from rich.console import Console
from rich.table import Table

from trouper import Reject, any_of, effect, open_system
from trouper.actors.groups import Completed, EffectCall, Failed, Outcome, open_group

HOST = "127.0.0.1"
# Seconds that a server takes for the requests of a round of six. Each is the first now and then.
SPEEDS: dict[str, Sequence[float]] = {
    "steady": (0.10, 0.10, 0.10, 0.10, 0.10, 0.10),
    "moody": (0.02, 0.30, 0.02, 0.30, 0.05, 0.25),
    "flaky": (0.05, 0.01, 0.20, 0.02, 0.02, 0.15),  # the first and the fifth answer are errors
}
FAILS = ("flaky", (0, 4))

Ranks = dict[int, list[tuple[int, str]]]
"""By request: (server, what became of it) in rank order."""


# --- the client: what survives ------------------------------------------------------------------


@effect
async def fetch(port: int, request: int) -> str:
    """GET one answer. Asking twice is harmless, which is what makes hedging possible at all."""
    async with await trio.open_tcp_stream(HOST, port) as stream:
        await stream.send_all(f"GET /{request} HTTP/1.0\r\nHost: {HOST}\r\n\r\n".encode())
        answer = b"".join([part async for part in stream])
    head, _, body = answer.partition(b"\r\n\r\n")
    if b" 200 " not in head.split(b"\r\n", 1)[0]:
        raise Reject(head.split(b"\r\n", 1)[0].decode("latin-1"))
    return body.decode()


def calls_of(ports: Sequence[int], request: int) -> list[EffectCall[str]]:
    """Describe one hedged request: the same question to every server."""
    return [fetch.call(port, request) for port in ports]


async def client(store: Path, ports: Sequence[int], requests: int, losers: str) -> None:
    """Make every request; say who won each, and in the end who answered at which rank."""
    word = cast("Any", losers)
    async with open_system("hedged", store=store) as system:
        for request in range(requests):
            calls = calls_of(ports, request)
            won = await any_of(system.host, f"request {request}", calls, losers=word)
            say(request=request, winner=won.position, rank=won.rank, answer=won.value)
        for request in range(requests):
            key, calls = f"request {request}", calls_of(ports, request)
            async with open_group(
                system.host, key, calls, wake="first_success", losers=word
            ) as group:
                ranks = [(s.position, shown(s.outcome)) async for s in group]
            say(request=request, ranks=ranks)


def shown(outcome: Outcome) -> str:
    """Return what became of one request, in a word."""
    match outcome:
        case Completed():
            return "answered"
        case Failed():
            return "failed"
        case _:
            return "cancelled"


def say(**facts: Any) -> None:
    """Write one line for whoever started this client."""
    print(json.dumps(facts), flush=True)


# --- the servers ----------------------------------------------------------------------------------


class Answering(BaseHTTPRequestHandler):
    """Answers a GET in the server's own time."""

    def do_GET(self) -> None:
        """Answer one request."""
        cast("Server", self.server).answer(self, int(self.path[1:]))

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - so named there
        """Say nothing."""


class Server(ThreadingHTTPServer):
    """One HTTP server with a speed of its own; it counts what it was asked."""

    def __init__(self, name: str) -> None:
        super().__init__((HOST, 0), Answering)
        self.name = name
        self.port: int = self.server_address[1]
        self.asked: Counter[int] = Counter()

    def answer(self, handler: Answering, request: int) -> None:
        """Answer one request."""
        self.asked[request] += 1
        speeds = SPEEDS[self.name]
        turn = request % len(speeds)
        time.sleep(speeds[turn])
        with suppress(OSError):  # the client may have given this one up
            handler.send_response(503 if self.name == FAILS[0] and turn in FAILS[1] else 200)
            handler.end_headers()
            handler.wfile.write(f"{request} from {self.name}".encode())

    @contextmanager
    def running(self) -> Generator[None]:
        """Serve while the block lasts."""
        thread = threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        try:
            yield
        finally:
            self.shutdown()
            thread.join()
            self.server_close()


# --- the demonstration ----------------------------------------------------------------------------


def start_client(
    store: Path, servers: Sequence[Server], requests: int, losers: str
) -> subprocess.Popen[str]:
    """Start the client in a process of its own."""
    ports = [str(server.port) for server in servers]
    options = ["--store", str(store), "--requests", str(requests), "--losers", losers]
    command = [sys.executable, __file__, *options, "--client", *ports]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def lines_of(process: subprocess.Popen[str]) -> Iterator[dict[str, Any]]:
    """Yield what the client says; a line that the kill tore was not said."""
    assert process.stdout is not None
    for line in process.stdout:
        if line.endswith("\n"):
            yield json.loads(line)


def demonstrate(console: Console, requests: int, losers: str) -> int:
    """Run, kill half-way, run again; print the ranks and compute the verdict."""
    with ExitStack() as stack:
        store = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "store"
        servers = [Server(name) for name in SPEEDS]
        for server in servers:
            stack.enter_context(server.running())
        before: dict[int, dict[str, Any]] = {}
        with start_client(store, servers, requests, losers) as process:
            for said in lines_of(process):
                before[said["request"]] = said
                if len(before) >= requests // 2:
                    process.kill()
                    break
        asked = [server.asked.copy() for server in servers]
        winners: dict[int, dict[str, Any]] = {}
        ranks: Ranks = {}
        with start_client(store, servers, requests, losers) as process:
            for said in lines_of(process):
                if "ranks" in said:
                    ranks[said["request"]] = [(server, word) for server, word in said["ranks"]]
                else:
                    winners[said["request"]] = said
        if process.returncode != 0:
            raise SystemExit(f"hedged: the resumed client ended with {process.returncode}")
    console.print(rank_table(ranks, set(before)))
    again = sum(
        (server.asked - old)[request]
        for server, old in zip(servers, asked, strict=True)
        for request in before
    )
    faults = judge(before, winners, ranks, requests, losers)
    for fault in faults:
        console.print(f"[red]x[/] {fault}")
    if not faults:
        console.print(
            f"[green]verdict: the {len(before)} requests decided before the kill have the same "
            f"winner at the same rank after it; {again} of their fetches, which had not settled, "
            "were made again[/]"
        )
    return 1 if faults else 0


def judge(
    before: dict[int, dict[str, Any]],
    after: dict[int, dict[str, Any]],
    ranks: Ranks,
    requests: int,
    losers: str,
) -> list[str]:
    """Return every rule that does not hold."""
    faults: list[str] = []
    if sorted(ranks) != list(range(requests)) or sorted(after) != sorted(ranks):
        faults.append("not every request was decided")
    faults += [f"request {r}: another winner than before" for r in before if before[r] != after[r]]
    for request, order in ranks.items():
        positions = sorted(position for position, _ in order)
        if positions != list(range(len(SPEEDS))):
            faults.append(f"request {request}: not every server has one rank")
        winner: int = after[request]["winner"]
        rank: int = after[request]["rank"]
        if order[rank - 1] != (winner, "answered"):
            faults.append(f"request {request}: the winner is not at its rank")
        if any(word == "answered" for _, word in order[: rank - 1]):
            faults.append(f"request {request}: somebody answered before the winner")
        if losers == "run_to_completion" and any(word == "cancelled" for _, word in order):
            faults.append(f"request {request}: a loser was cancelled")
    return faults


def rank_table(ranks: Ranks, before: set[int]) -> Table:
    """Build the table of who settled at which rank."""
    table = Table(title="ranks, as journaled", title_justify="left")
    for column in ("request", "rank 1", "rank 2", "rank 3", "decided"):
        table.add_column(column)
    names = list(SPEEDS)
    for request, order in sorted(ranks.items()):
        cells = [f"{names[position]} {word}" for position, word in order]
        table.add_row(str(request), *cells, "before the kill" if request in before else "after it")
    return table


def main(argv: Sequence[str] | None = None) -> int:
    """Run the demonstration, or the client that it starts."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--requests", type=int, default=12)
    parser.add_argument("--losers", choices=["run_to_completion", "cancel"], default="cancel")
    parser.add_argument("--store", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--client", type=int, nargs=len(SPEEDS), help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    if options.requests < 2:
        parser.error("--requests: 2 or more, since the kill comes after half of them")
    try:
        if options.client is not None:
            trio.run(client, options.store, options.client, options.requests, options.losers)
            return 0
        return demonstrate(Console(width=100), options.requests, options.losers)
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
