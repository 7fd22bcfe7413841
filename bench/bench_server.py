"""A server for benchmarks: started on a free port, asked over a connection of its own, measured."""
import atexit
import json
import pathlib
import signal
import socket
import struct
import subprocess
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent


def bson_document(fields):
    body = b""
    for name, value in fields:
        key = name.encode() + b"\0"
        if isinstance(value, bool):
            body += b"\x08" + key + (b"\1" if value else b"\0")
        elif isinstance(value, int):
            wide = not -2**31 <= value < 2**31
            body += (b"\x12" if wide else b"\x10") + key + struct.pack("<q" if wide else "<i", value)
        elif isinstance(value, str):
            text = value.encode() + b"\0"
            body += b"\x02" + key + struct.pack("<i", len(text)) + text
        elif isinstance(value, list):
            body += b"\x04" + key + bson_document([(str(i), v) for i, v in enumerate(value)])
        else:
            body += b"\x03" + key + bson_document(list(value.items()))
    return struct.pack("<i", len(body) + 5) + body + b"\0"


def parse_bson(data, at=0, array=False):
    """The document at `at` as a dict (or list): the types that replies of these commands have."""
    end = at + struct.unpack_from("<i", data, at)[0] - 1
    at += 4
    out = {}
    while at < end:
        kind = data[at]
        stop = data.index(b"\0", at + 1)
        name = data[at + 1:stop].decode()
        at = stop + 1
        if kind == 1:
            out[name], at = struct.unpack_from("<d", data, at)[0], at + 8
        elif kind == 2:
            size = struct.unpack_from("<i", data, at)[0]
            out[name], at = data[at + 4:at + 3 + size].decode(), at + 4 + size
        elif kind in (3, 4):
            out[name] = parse_bson(data, at, kind == 4)
            at += struct.unpack_from("<i", data, at)[0]
        elif kind == 5:
            size = struct.unpack_from("<i", data, at)[0]
            out[name], at = data[at + 5:at + 5 + size], at + 5 + size
        elif kind == 7:
            out[name], at = data[at:at + 12], at + 12
        elif kind == 8:
            out[name], at = data[at] != 0, at + 1
        elif kind in (9, 17, 18):
            out[name], at = struct.unpack_from("<q", data, at)[0], at + 8
        elif kind == 10:
            out[name] = None
        elif kind == 16:
            out[name], at = struct.unpack_from("<i", data, at)[0], at + 4
        else:
            raise SystemExit(f"a reply with BSON type {kind}")
    return list(out.values()) if array else out


class Connection:
    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=3600)

    def command(self, fields):
        body = bson_document(fields.items())
        self.socket.sendall(struct.pack("<iiii", 21 + len(body), 1, 0, 2013) + b"\0\0\0\0\0" + body)
        header = self._read(16)
        reply = parse_bson(self._read(struct.unpack("<i", header[:4])[0] - 16), 5)
        if reply.get("ok") != 1 or "writeErrors" in reply:
            raise SystemExit(f"{list(fields)[0]}: {str(reply)[:500]}")
        return reply

    def _read(self, size):
        data = bytearray()
        while len(data) < size:
            part = self.socket.recv(size - len(data))
            if not part:
                raise SystemExit("the server closed the connection")
            data += part
        return bytes(data)


class Server:
    def __init__(self, build_dir, path, *args):
        self.path = pathlib.Path(path)
        started = time.monotonic()
        self.process = subprocess.Popen(
            [str(pathlib.Path(build_dir) / "bin" / "multiforadb"), "--port", "0", "--dbpath", str(path), *args],
            stdout=subprocess.PIPE, text=True)
        atexit.register(self.process.kill)  # where the script ends before its time
        while True:
            line = self.process.stdout.readline()
            if not line:
                raise SystemExit("the server did not start")
            event = json.loads(line)
            if "port" in event:
                break
        # What it says later is of no interest, but must be read.
        threading.Thread(target=lambda: [None for _ in self.process.stdout], daemon=True).start()
        self.port = event["port"]
        self.connection = Connection(self.port)
        self.connection.command({"ping": 1, "$db": "admin"})
        # From spawn to the first answered command.
        self.start_ms = (time.monotonic() - started) * 1000

    @property
    def pid(self):
        return self.process.pid

    def rss(self):
        """Bytes of anonymous and of file memory."""
        with open(f"/proc/{self.pid}/status", encoding="ascii") as status:
            rows = dict(line.split(":", 1) for line in status)
        return {k: int(rows[k].split()[0]) * 1024 for k in ("RssAnon", "RssFile")}

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        if self.process.wait() != 0:
            raise SystemExit("a clean stop failed")

    def kill(self):
        self.process.kill()
        self.process.wait()


def allocated(path):
    path = pathlib.Path(path)
    files = [path] if path.is_file() else [f for f in path.rglob("*") if f.is_file()]
    return sum(f.stat().st_blocks * 512 for f in files)
