"""What is compared: MultiforaDB, its floors and its peers. Each side knows how to be started, filled and asked
for a row; a row that it has not is None."""
import os
import pathlib
import pwd
import shlex
import shutil
import signal
import socket
import subprocess
import time

from . import process, wire


class DataSet:
    """documents of `size` bytes (mixed: from 300 bytes to `size`)."""

    def __init__(self, name, documents, size, mixed=False):
        self.name, self.documents, self.size, self.mixed = name, documents, size, mixed

    @property
    def arguments(self):
        return ["--size", self.size, "--mixed", int(self.mixed)]


class Side:
    """name: in the report. program: what runs the timed part."""
    durable = "synced before each acknowledgement"

    def __init__(self, name, options, directory):
        self.name, self.options = name, options
        self.directory = pathlib.Path(directory) / name
        self.directory.mkdir(parents=True, exist_ok=True)
        self.bin = pathlib.Path(options.build_dir) / "bin"
        self.version = ""
        self.next_id = 0
        self.running = None  # its server's process

    def available(self):
        """Why this side cannot run; None: it can."""
        return None

    def start(self, data):
        self.data = data
        self.next_id = data.documents

    def fill(self):
        """Loads the data set. The result of the loading program."""

    def index(self):
        """Builds the index on k; microseconds, or None."""

    def checkpoint(self):
        pass

    def measure(self, row, seconds):
        """The JSON line of one measurement, or None."""

    def sizes(self):
        """Allocated bytes: {"data", "log", ...}."""
        return {"all": process.allocated_bytes(self.directory)}

    def stop(self):
        pass

    def kill(self):
        """Ends it, whatever its state; also where it was never started."""
        if self.running is not None:
            self.running.kill()
            self.running.wait()


class WireSide(Side):
    """A server that speaks MongoDB's wire protocol."""

    def start(self, data):
        super().start(data)
        self.start_server()

    def command(self, db, document):
        return self.connection.command(db, document)

    def fill(self):
        done = process.run_json([self.bin / "bench_fill", "--port", self.port, "--documents", self.data.documents,
                                 *self.data.arguments])
        found = self.command("bench", {"count": "c"})["n"]
        if found != self.data.documents:
            raise process.ProcessError(f"{self.name}: {found} documents after loading {self.data.documents}")
        return done

    def index(self):
        if len(self.command("bench", {"listIndexes": "c"})["cursor"]["firstBatch"]) > 1:
            self.command("bench", {"dropIndexes": "c", "index": "k_1"})
        start = time.perf_counter_ns()
        self.command("bench", {"createIndexes": "c", "indexes": [{"key": {"k": 1}, "name": "k_1"}]})
        return (time.perf_counter_ns() - start) / 1000

    def command_of(self, row):
        half = self.data.documents // 2
        return row.command.replace("@half65", str(half + 65)).replace("@half", str(half))

    def measure(self, row, seconds):
        if row.command is not None:
            text = self.command_of(row)
            out = process.run_json([self.bin / "bench_query", "--port", self.port, "--command", text,
                                    "--documents", self.data.documents, "--seconds", seconds],
                                   prefix=self.options.prefix)
            out["answer"] = [a - b for a, b in zip(out["answer"], row.answer_offset)]
            return out
        if row.load is None or self.data.mixed:
            return None
        arguments = [str(a) for a in row.load]
        own = "w" if row.inserts else "c"
        out = process.run_json([self.bin / "bench_load", "--port", self.port, "--collection", own, "--seconds", seconds,
                                "--first-id", self.next_id, "--size", self.data.size, *arguments], prefix=self.options.prefix)
        self.next_id = max(self.next_id, out.get("next_id", 0))
        return out


class Multifora(WireSide):
    """The server of the build. `again`: the same under another name, for A/A."""

    def start_server(self, path=None):
        self.server = process.Server(self.bin / "multiforadb", path or self.directory / "db",
                                     prefix=self.options.prefix)
        self.running = self.server.process
        self.connection, self.port = self.server.connection, self.server.port
        self.version = self.options.version

    def checkpoint(self):
        # Two full checkpoints: what the older of them still needed is free after the second.
        for _ in range(2):
            self.command("admin", {"fsync": 1})

    def sizes(self):
        db = self.directory / "db"
        status = self.server.status()["multifora"]
        data = process.allocated_bytes(db / "data.mfdb")
        free = status["data_free_bytes"]
        return {"data": data - free, "free": free, "log": process.allocated_bytes(db / "wal")}

    def stop(self):
        self.server.stop()


class Null(WireSide):
    """The same bytes in and out, append and fdatasync, no engine."""

    def available(self):
        return None if (self.bin / "bench_null").exists() else "bench_null is not built"

    def start_server(self):
        self.running = subprocess.Popen([*self.options.prefix, str(self.bin / "bench_null"), "--dir", str(self.directory),
                                         "--log-mb", "16" if self.options.tiny else "256"],
                                        stdout=subprocess.PIPE, text=True)
        self.port = process.last_json(self.running.stdout.readline())["port"]
        self.connection = wire.Connection(self.port)
        self.version = "null server"

    def fill(self):
        """One document, which it gives to everybody who asks for one."""
        process.run_json([self.bin / "bench_fill", "--port", self.port, "--documents", 1, *self.data.arguments])

    def index(self):
        return None

    def measure(self, row, seconds):
        if row.command is None:
            return super().measure(row, seconds) if row.load else None
        if row.floor is None:
            return None
        if row.floor == "document":
            text = '{"find":"c","filter":{"_id":"@id"},"limit":1,"singleBatch":true}'
        elif row.floor == "same":
            text = self.command_of(row)
        else:  # as many bytes as the server's reply had
            text = '{"reply":%d}' % row.reply_bytes
        out = process.run_json([self.bin / "bench_query", "--port", self.port, "--command", text, "--documents",
                                self.data.documents, "--seconds", seconds], prefix=self.options.prefix)
        out.pop("answer")  # it knows no answers
        # A null server that cannot reply at such length is no floor.
        return out if row.floor != "bytes" or out["reply_bytes"] >= row.reply_bytes // 2 else None

    def stop(self):
        self.running.send_signal(signal.SIGTERM)
        self.running.wait(30)
        self.running.stdout.close()


class OtherServer(WireSide):
    """Any server that speaks the protocol, by a command line with {port} and {dir}."""

    def __init__(self, name, template, options, directory):
        super().__init__(name, options, directory)
        self.template = template

    def available(self):
        program = shlex.split(self.template)[0]
        return None if shutil.which(program) else f"{program} is not installed"

    def start_server(self):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        argv = shlex.split(self.template.format(port=self.port, dir=self.directory))
        with open(self.directory.parent / f"{self.name}.log", "w", encoding="utf-8") as log:
            self.running = subprocess.Popen([*self.options.prefix, *argv], stdout=log, stderr=subprocess.STDOUT)
        deadline = time.monotonic() + 60
        while True:
            try:
                self.connection = wire.Connection(self.port)
                self.version = str(self.connection.command("admin", {"buildInfo": 1}).get("version", ""))
                return
            except (OSError, wire.CommandError):
                if time.monotonic() > deadline or self.running.poll() is not None:
                    raise process.ProcessError(f"{self.name} did not start: {' '.join(argv)}") from None
                time.sleep(0.05)

    def stop(self):
        self.running.send_signal(signal.SIGTERM)
        self.running.wait(120)


class ApiPeer(Side):
    """A library through its own API: one process a measurement."""

    def __init__(self, kind, options, directory):
        super().__init__(kind, options, directory)
        self.program = self.bin / f"bench_peer_{kind}"
        self.where = str(self.directory)

    def available(self):
        if self.program.exists():
            return None
        return f"{self.program.name} is not built (scripts/setup --bench installs its library)"

    def run_row(self, name, *arguments):
        return process.run_json([self.program, "--where", self.where, "--row", name, "--documents", self.data.documents,
                                 *self.data.arguments, *arguments], prefix=self.options.prefix)

    def fill(self):
        done = self.run_row("load")
        self.version = done["version"]
        return done

    def index(self):
        return self.run_row("index")["p50_us"]

    def checkpoint(self):
        self.run_row("checkpoint")

    def measure(self, row, seconds):
        if row.peer is None or self.name in row.without:
            return None
        out = self.run_row(*row.peer, "--seconds", seconds, "--first-id", self.next_id)
        self.next_id = max(self.next_id, out.get("next_id", 0))
        return out


class Ideal(ApiPeer):
    durable = "nothing is synced but the index"
    ROWS = {"count_scan", "group"}

    def measure(self, row, seconds):
        return super().measure(row, seconds) if row.name in self.ROWS else None


class Postgres(ApiPeer):
    """A cluster of its own, over TCP. PostgreSQL does not run as root: then as the user postgres."""

    def available(self):
        why = super().available()
        found = sorted(pathlib.Path("/usr/lib/postgresql").glob("*/bin/initdb"))
        return why or (None if found else "postgresql is not installed (scripts/setup --bench)")

    def start(self, data):
        super().start(data)
        self.tools = sorted(pathlib.Path("/usr/lib/postgresql").glob("*/bin"))[-1]
        root = os.geteuid() == 0
        self.user = "postgres" if root else pwd.getpwuid(os.geteuid()).pw_name
        self.as_user = ["setpriv", "--reuid=postgres", "--regid=postgres", "--init-groups"] if root else []
        if root:
            for folder in [self.directory, *self.directory.parents]:
                if folder == folder.parent or os.stat(folder).st_mode & 0o001:
                    continue
                folder.chmod(os.stat(folder).st_mode | 0o011)  # it must be able to come here
            shutil.chown(self.directory, "postgres", "postgres")
        cluster = self.directory / "cluster"
        self._must([self.tools / "initdb", "-D", cluster, "-A", "trust", "--no-sync", "-U", self.user])
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2**20
        settings = {"port": port, "listen_addresses": "127.0.0.1", "unix_socket_directories": "", "max_connections": 100,
                    "shared_buffers": f"{16 if self.options.tiny else memory // 4}MB", "max_wal_size": "8GB",
                    "synchronous_commit": "on", "fsync": "on"}
        self.running = subprocess.Popen([*self.options.prefix, *self.as_user, str(self.tools / "postgres"), "-D", str(cluster),
                                        *(a for k, v in settings.items() for a in ("-c", f"{k}={v}"))],
                                       stdout=subprocess.DEVNULL, stderr=open(self.directory.parent / "postgres.log", "w",
                                                                              encoding="utf-8"), cwd="/")
        self.where = f"host=127.0.0.1 port={port} user={self.user} dbname=postgres"
        deadline = time.monotonic() + 60
        while subprocess.run([self.tools / "pg_isready", "-q", "-h", "127.0.0.1", "-p", str(port)], check=False).returncode:
            if time.monotonic() > deadline or self.running.poll() is not None:
                log = (self.directory.parent / "postgres.log").read_text(encoding="utf-8")
                raise process.ProcessError(f"postgres did not start: {log.strip()[-300:]}")
            time.sleep(0.05)

    def _must(self, argv):
        done = subprocess.run([*self.as_user, *map(str, argv)], capture_output=True, text=True, cwd="/")
        if done.returncode != 0:
            raise process.ProcessError(f"{argv[0]}: {done.stderr.strip()[-300:]}")

    def fill(self):
        done = super().fill()
        self.checkpoint()
        return done

    def index(self):
        took = super().index()
        self.checkpoint()  # so that its planner knows
        return took

    def sizes(self):
        cluster = self.directory / "cluster"
        log = process.allocated_bytes(cluster / "pg_wal")
        return {"data": process.allocated_bytes(cluster) - log, "log": log}

    def stop(self):
        self.running.send_signal(signal.SIGINT)
        self.running.wait(60)

    def kill(self):
        if self.running is not None:
            self.running.send_signal(signal.SIGQUIT)  # at once, and its own processes with it
            self.running.wait(60)
