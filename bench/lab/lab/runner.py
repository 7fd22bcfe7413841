"""Running: block by block, arms in the block's order, each workload in processes of its own. A finished block
is a file named in the ledger; an interrupted one leaves an entry and what it had, and is run again."""
import json
import os
import pathlib
import re
import shutil
import tempfile

from harness import machine, probes, process

from . import LabError, ledger, protocol as protocols


def _numbers(value, prefix=""):
    """Every number in nested dicts, by dotted name."""
    out = {}
    for name, inner in value.items():
        if isinstance(inner, dict):
            out.update(_numbers(inner, f"{prefix}{name}."))
        elif isinstance(inner, (int, float)) and not isinstance(inner, bool):
            out[f"{prefix}{name}"] = inner
    return out


def callgrind_total(text):
    """Instructions, from callgrind's output file."""
    found = re.findall(r"^(?:totals|summary): (\d+)", text, re.MULTILINE)
    if not found:
        raise LabError("callgrind wrote no total")
    return int(found[-1])


class Unit:
    """One workload under one arm: everything that happened, and its metrics."""

    def __init__(self, workload, arm, folders, tools, directory, block, prefix):
        self.workload, self.arm, self.prefix = workload, arm, prefix
        self.directory = pathlib.Path(directory)
        self.names = {"bin": folders[arm["as"]], "tools": folders[tools], "dir": str(self.directory / "data"),
                      "block": str(block), "arm": arm["as"], **arm.get("vars", {})}
        self.values = {}
        self.processes = []

    def run(self):
        (self.directory / "data").mkdir(parents=True)
        if self.workload["kind"] == "server":
            self._with_server()
        else:
            for step in self.workload["steps"]:
                self._step(step)
        self.values["end.file_bytes"] = process.allocated_bytes(self.directory / "data")
        return {"arm": self.arm["as"], "workload": self.workload["name"], "processes": self.processes,
                "values": self.values, "metrics": self._metrics()}

    def _with_server(self):
        server = process.Server(pathlib.Path(self.names["bin"]) / "multiforadb", self.names["dir"],
                                config=self.arm.get("config"), prefix=self.prefix)
        try:
            self.names["port"] = str(server.port)
            steps = self.workload["steps"]
            measured = [i for i, s in enumerate(steps) if s.get("measured", True)]
            for i, step in enumerate(steps):
                if measured and i == measured[0]:
                    before = self._server_now(server)
                self._step(step)
                if measured and i == measured[-1]:
                    after = self._server_now(server)
            for name, value in after.items():
                self.values[f"status.{name}"] = value
                self.values[f"delta.{name}"] = value - before.get(name, 0)
            rss = process.process_rss_kib(server.pid)
            self.values["server.rss_anonymous_kib"] = rss["anonymous"]
            self.values["server.start_ms"] = round(server.start_ms, 3)
            server.stop()
        except BaseException:
            server.kill()
            raise
        text = (self.directory / "data.log").read_text(encoding="utf-8")
        self.processes.append({"argv": self._relative(server.argv), "out": text[-600:]})

    @staticmethod
    def _server_now(server):
        now = _numbers(server.status())
        now["cpu_s"] = process.process_cpu_s(server.pid)
        now["bytes_written"] = process.process_bytes_written(server.pid)
        return now

    def _relative(self, argv):
        """Arguments without the machine's folders."""
        text = [a.replace(str(self.directory), "{work}") for a in map(str, argv)]
        for name in ("bin", "tools"):
            text = [a.replace(self.names[name], "{" + name + "}") for a in text]
        return text

    def _step(self, step):
        try:
            argv = [part.format(**self.names) for part in step["run"]]
        except KeyError as error:
            raise LabError(f"workload {self.workload['name']!r}, step {step['name']!r}: no value for {error}") from error
        counted = self.directory / "callgrind.out"
        if step.get("callgrind"):
            argv = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={counted}", "--quiet", *argv]
        done = process.run(argv, prefix=self.prefix, timeout=step.get("timeout_s", 600), cwd=self.directory)
        self.processes.append({"step": step["name"], "argv": self._relative(done.argv), "exit": done.code,
                               "out": done.out[-2000:], "err": done.err[-600:]})
        if done.code != 0:
            raise LabError(f"workload {self.workload['name']!r}, step {step['name']!r}: exit {done.code}: "
                           f"{done.err.strip()[-400:]}")
        values = {"wall_s": round(done.wall_s, 6), "cpu_s": round(done.cpu_s, 6), "bytes_written": done.bytes_written}
        if step.get("callgrind"):
            values["instructions"] = callgrind_total(counted.read_text(encoding="utf-8"))
        if any(line.startswith("{") for line in done.out.splitlines()):
            values.update(_numbers(process.last_json(done.out)))
        self.values.update({f"{step['name']}.{name}": value for name, value in values.items()})

    def _metrics(self):
        out = {}
        for name, how in self.workload["metrics"].items():
            value = self._value(name, how["value"])
            if "minus" in how:
                value -= self._value(name, how["minus"])
            over = how.get("over")
            if over is not None:
                value /= over if isinstance(over, (int, float)) else self._value(name, over)
            out[name] = value
        return out

    def _value(self, metric, name):
        if name not in self.values:
            raise LabError(f"metric {metric!r} of workload {self.workload['name']!r} asks for {name!r}; there are "
                           + ", ".join(sorted(self.values)))
        return self.values[name]


class Runner:
    def __init__(self, protocol, folders, evidence, work, prefix=(), probe=probes.take, say=print):
        self.protocol, self.folders, self.evidence = protocol, folders, evidence
        self.work = pathlib.Path(work)
        self.prefix = list(prefix)
        self.probe = probe  # of a folder: {name: figure}
        self.say = say

    def blocks(self):
        """(name, arm order) of every block, the warm-up first."""
        orders = self.evidence.read_freeze()["orders"]
        warm = [(f"warm-up-{i}", orders[i % len(orders)]) for i in range(self.protocol.get("warm_up_blocks", 1))]
        return warm + [(f"block-{i:03}", order) for i, order in enumerate(orders)]

    def finished(self):
        return {entry["data"]["block"]: entry["data"] for entry in self.evidence.ledger.of("block")}

    def run(self, stop_after=None):
        """Runs what is not finished. stop_after: at most so many blocks (for tests and short sessions)."""
        done = self.finished()
        left = [(name, order) for name, order in self.blocks() if name not in done]
        self._close_unfinished()
        if not left:
            return
        self.evidence.ledger.append("session", {"blocks_left": len(left), "prefix": self.prefix,
                                                "machine": machine.facts(self.work.parent),
                                                "load_average": machine.load_average()})
        for number, (name, order) in enumerate(left[:stop_after]):
            self.say(f"run: {name} ({number + 1} of {len(left)}): {' '.join(order)}")
            self._block(name, order)

    def _close_unfinished(self):
        """A block that was begun and neither finished nor aborted: the laboratory itself was killed."""
        entries = self.evidence.ledger.entries
        if entries and entries[-1]["event"] == "begun":
            self.evidence.ledger.append("aborted", {"block": entries[-1]["data"]["block"], "file": None,
                                                    "why": "the laboratory ended without a word"})

    def _block(self, name, order):
        record = {"block": name, "order": order, "units": []}
        self.evidence.ledger.append("begun", {"block": name})
        self.evidence.raw.mkdir(parents=True, exist_ok=True)
        try:
            for workload in self.protocol["workloads"]:
                record["units"].append(self._workload(workload, name, order))
        except BaseException as error:
            self._aborted(record, error)
            raise
        file = self.evidence.raw / f"{name}.json"
        file.write_text(json.dumps(record, indent=1, sort_keys=True) + "\n", encoding="utf-8")
        self.evidence.ledger.append("block", {"block": name, "file": f"raw/{name}.json",
                                              "sha256": ledger.sha256_file(file)})

    def _aborted(self, record, error):
        attempts = sum(1 for e in self.evidence.ledger.of("aborted") if e["data"]["block"] == record["block"])
        file = self.evidence.raw / f"{record['block']}.aborted-{attempts + 1}.json"
        file.write_text(json.dumps(record, indent=1, sort_keys=True) + "\n", encoding="utf-8")
        self.evidence.ledger.append("aborted", {"block": record["block"], "file": f"raw/{file.name}",
                                                "sha256": ledger.sha256_file(file),
                                                "why": f"{type(error).__name__}: {error}"[:1000]})

    def _workload(self, workload, block, order):
        before = self.probe(self.work.parent)
        runs = [self._unit(workload, arm, block) for arm in order]
        after = self.probe(self.work.parent)
        return {"workload": workload["name"], "before": before, "after": after, "runs": runs}

    def _unit(self, workload, arm_name, block):
        self.work.mkdir(parents=True, exist_ok=True)
        directory = pathlib.Path(tempfile.mkdtemp(prefix="unit-", dir=self.work))
        arm = {**protocols.build_of(self.protocol, arm_name), "as": arm_name}
        try:
            return Unit(workload, arm, self.folders, protocols.tools_arm(self.protocol), directory, block,
                        self.prefix).run()
        except (process.ProcessError, OSError) as error:
            raise LabError(f"arm {arm_name!r}, workload {workload['name']!r}: {error}") from error
        finally:
            shutil.rmtree(directory, ignore_errors=True)
