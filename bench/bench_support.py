"""What the benchmark scripts share: programs, servers, pairs that alternate, a probe of the disk."""
import atexit
import json
import os
import pathlib
import signal
import socket
import statistics
import struct
import subprocess
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
DEFAULT_BUILD = str(ROOT / "build/release")


def run(build, program, *args):
    """One line of JSON from a program of the build."""
    command = [str(pathlib.Path(build) / "bin" / program), *map(str, args)]
    out = subprocess.run(command, capture_output=True, text=True)
    if out.returncode != 0:
        raise SystemExit(f"{' '.join(command)}: {out.stderr.strip() or out.returncode}")
    return json.loads(out.stdout)


def bson_document(fields):
    body = b""
    for name, value in fields:
        key = name.encode() + b"\0"
        if isinstance(value, int):
            body += b"\x10" + key + struct.pack("<i", value)
        elif isinstance(value, str):
            text = value.encode() + b"\0"
            body += b"\x02" + key + struct.pack("<i", len(text)) + text
        elif isinstance(value, list):
            body += b"\x04" + key + bson_document([(str(i), v) for i, v in enumerate(value)])
        else:
            body += b"\x03" + key + bson_document(list(value.items()))
    return struct.pack("<i", len(body) + 5) + body + b"\0"


class Connection:
    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=60)

    def command(self, **fields):
        body = bson_document([*fields.items()])
        self.socket.sendall(struct.pack("<iiii", 21 + len(body), 1, 0, 2013) + b"\0\0\0\0\0" + body)
        header = self._read(16)
        reply = self._read(struct.unpack("<i", header[:4])[0] - 16)
        if b"\x01ok\0" + struct.pack("<d", 1.0) not in reply:
            raise SystemExit(f"{fields}: {reply[:300]!r}")
        return reply

    def _read(self, size):
        data = b""
        while len(data) < size:
            part = self.socket.recv(size - len(data))
            if not part:
                raise SystemExit("the server closed the connection")
            data += part
        return data


class Server:
    """A server of this project on a directory of its own, any port."""

    def __init__(self, build, path, *args):
        self.path = path
        self._start([str(pathlib.Path(build) / "bin/multiforadb"), "--port", "0", "--dbpath", str(path), *args])

    def _start(self, command):
        started = time.monotonic()
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        atexit.register(self.process.kill)  # where the script ends before its time
        while True:
            line = self.process.stdout.readline()
            if not line:
                raise SystemExit(f"{command[0]} did not start")
            event = json.loads(line)
            if "port" in event:
                break
        # What it says later is of no interest, but must be read.
        threading.Thread(target=lambda: [None for _ in self.process.stdout], daemon=True).start()
        self.port = event["port"]
        self.connection = Connection(self.port)
        self.connection.command(**{"ping": 1, "$db": "admin"})
        # From spawn to the first answered command.
        self.start_ms = (time.monotonic() - started) * 1000

    def rss_kib(self):
        with open(f"/proc/{self.process.pid}/status", encoding="ascii") as status:
            rows = dict(line.split(":", 1) for line in status)
        return {k: int(rows[k].split()[0]) for k in ("RssAnon", "RssFile")}

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait()

    def kill(self):
        self.process.kill()
        self.process.wait()


class NullServer(Server):
    """bench_null: the floor."""

    def __init__(self, build, path, *args):
        pathlib.Path(path).mkdir(parents=True, exist_ok=True)
        self.path = path
        self._start([str(pathlib.Path(build) / "bin/bench_null"), "--dir", str(path), *args])


def probe(build, path, tiny):
    """p50 of append + fdatasync, us: has the disk or the machine changed under us?"""
    return run(build, "bench_floor", "--path", os.path.join(path, "probe.bin"), "--size", 4096, "--count",
               20 if tiny else 200)["p50_us"]


class Pairs:
    """Measures two sides in turn, A B B A, and keeps the ratios of each pair.

    The first pair is a warm-up and not counted. A pair is dropped where the probes before and after it
    differ by more than a quarter.
    """
    MOVED = 1.25

    def __init__(self, build, path, pairs, tiny):
        self.build, self.path, self.pairs, self.tiny = build, path, pairs, tiny

    def measure(self, side_a, side_b):
        kept, dropped = [], 0
        for pair in range(self.pairs + (0 if self.tiny else 1)):
            before = probe(self.build, self.path, self.tiny)
            if pair % 2 == 0:
                a = side_a()
                b = side_b()
            else:
                b = side_b()
                a = side_a()
            after = probe(self.build, self.path, self.tiny)
            if pair == 0 and not self.tiny:
                continue
            if max(before, after) > self.MOVED * min(before, after) and not self.tiny:
                dropped += 1
                continue
            kept.append((a, b))
        return kept, dropped


def spread(values, digits=2):
    """median (min to max)"""
    if not values:
        return "no pair left"
    return f"{statistics.median(values):.{digits}f} ({min(values):.{digits}f} to {max(values):.{digits}f})"


def allocated(path):
    return sum(f.stat().st_blocks * 512 for f in pathlib.Path(path).rglob("*") if f.is_file())
