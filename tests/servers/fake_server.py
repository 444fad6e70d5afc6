"""A small real server with bad habits, for tests of lifetimes. Unknown flags are ignored.

Run as a program: `python fake_server.py --port N [--die TEXT] [--ignore-term] ...`.
"""

import argparse
import json
import os
import signal
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--die", help="print this and exit with 3")
    parser.add_argument("--die-once", help="a file: die (with --die) only while it does not exist")
    parser.add_argument("--die-if", help="a file: die (with --die) only while it exists")
    parser.add_argument("--healthy-after", type=float, default=0.0)
    parser.add_argument("--chatter", action="store_true", help="a log line every 50 ms")
    parser.add_argument("--ignore-term", action="store_true")
    parser.add_argument("--grandchild", help="file for the pid of a grandchild in its own session")
    parser.add_argument("--facts", help="file for what this process sees of itself, as JSON")
    parser.add_argument("--say", help="print this line")
    parser.add_argument("--config", help="a file: print its mode and what is in it")
    return parser.parse_known_args()[0]


def make_grandchild(pid_file: str) -> None:
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            Path(pid_file).with_suffix(".part").write_text(str(os.getpid()))
            Path(pid_file).with_suffix(".part").rename(pid_file)
            time.sleep(600)
        os._exit(0)


def write_facts(file: str) -> None:
    status = dict(
        line.split(":\t", 1)
        for line in Path("/proc/self/status").read_text().splitlines()
        if ":\t" in line
    )
    facts = {
        "fds": sorted(int(p.name) for p in Path("/proc/self/fd").iterdir() if p.exists()),
        "ignored": int(status["SigIgn"], 16),
        "env": dict(os.environ),
        "argv": sys.argv,
    }
    Path(file).write_text(json.dumps(facts))


def serve(args: argparse.Namespace) -> None:
    ready_at = time.monotonic() + args.healthy_after

    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            healthy = time.monotonic() >= ready_at
            self.send_response(200 if healthy else 503)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    ThreadingHTTPServer((args.host, args.port), Answers).serve_forever()


def chatter() -> None:
    while True:
        print(f"loading {time.monotonic()}", flush=True)
        time.sleep(0.05)


def main() -> None:
    args = parse()
    if args.facts:
        write_facts(args.facts)
    if args.grandchild:
        make_grandchild(args.grandchild)
        while not Path(args.grandchild).exists():
            time.sleep(0.01)
    if args.config:
        mode = Path(args.config).stat().st_mode & 0o777
        print(f"config {mode:o} {Path(args.config).read_text()}", flush=True)
    if args.say:
        print(args.say, flush=True)
    once = args.die_once is None or not Path(args.die_once).exists()
    asked = args.die_if is None or Path(args.die_if).exists()
    if args.die and once and asked:
        if args.die_once:
            Path(args.die_once).touch()
        print(args.die, flush=True)
        sys.exit(3)
    signal.signal(signal.SIGTERM, signal.SIG_IGN if args.ignore_term else lambda *_: os._exit(0))
    if args.chatter:
        threading.Thread(target=chatter, daemon=True).start()
    serve(args)


if __name__ == "__main__":
    main()
