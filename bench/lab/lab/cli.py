"""The command line: see `bench/lab/run --help` and README.md."""
import argparse
import json
import pathlib
import shlex
import shutil
import signal
import sys

from . import LabError, analysis, builds, freeze, ledger, protocol as protocols, report, runner

_ROOT = pathlib.Path(__file__).resolve().parents[3]


def _say(text):
    print(text, file=sys.stderr, flush=True)


# Always built, so that experiments share the builds of the same inputs.
_PROGRAMS = {"multiforadb", "bench_fill", "bench_load", "bench_ops"}


def _targets(protocol):
    """Programs that the arms need: the usual ones, and those that steps name."""
    names = set(_PROGRAMS)
    for workload in protocol["workloads"]:
        for step in workload["steps"]:
            for part in step["run"]:
                for folder in ("{bin}/", "{tools}/"):
                    if part.startswith(folder):
                        names.add(part.removeprefix(folder))
    return sorted(names)


def _add_extra(path, evidence, protocol):
    extra = analysis.read_extra(path, protocol)
    folder = evidence.folder / "after-the-fact"
    folder.mkdir(exist_ok=True)
    file = folder / f"{len(list(folder.iterdir())) + 1:02}-{path.name}"
    shutil.copy(path, file)
    evidence.ledger.append("after-the-fact", {"name": extra["name"], "file": f"after-the-fact/{file.name}",
                                              "sha256": ledger.sha256_file(file)})


def _parser():
    parser = argparse.ArgumentParser(prog="bench/lab/run", description="Runs a pre-registered experiment: checks, freezes, "
                                     "builds, runs, analyses. What is finished is not done again.")
    parser.add_argument("protocol", type=pathlib.Path, help="the protocol, or with --report an evidence folder")
    parser.add_argument("--check", action="store_true", help="only check the protocol")
    parser.add_argument("--freeze", action="store_true", help="only build and freeze")
    parser.add_argument("--report", action="store_true", help="only verify an evidence folder and write its report again")
    parser.add_argument("--after-the-fact", type=pathlib.Path, metavar="FILE", help="add an analysis that was not registered")
    parser.add_argument("--evidence", type=pathlib.Path, help="default: the folder evidence beside the protocol")
    parser.add_argument("--work", type=pathlib.Path, default=_ROOT / "build/lab", help="builds and databases")
    parser.add_argument("--blocks", type=int, help="stop after so many blocks; run again to go on")
    parser.add_argument("--build-prefix", default="", help="command before each build, e.g. \"nice\"")
    parser.add_argument("--run-prefix", default="", help="command before each measured process, e.g. \"chrt -r 1\"")
    return parser


def _run(options):
    if options.report:
        return report.write(freeze.Evidence(options.protocol))
    protocol = protocols.read(options.protocol)
    if options.check:
        _say(f"{options.protocol}: a {protocol['status']} protocol with {len(protocol['arms'])} arms, "
             f"{len(protocol['workloads'])} workloads and {protocol['blocks']} blocks")
        return None
    evidence = freeze.Evidence(options.evidence or options.protocol.parent / "evidence")
    if options.after_the_fact:
        protocol = freeze.verify(evidence)
        _add_extra(options.after_the_fact, evidence, protocol)
        return report.write(evidence)
    builder = builds.Builder(_ROOT, options.work / "builds", _targets(protocol), shlex.split(options.build_prefix), _say)
    protocol, folders = freeze.freeze(options.protocol, evidence, builder)
    if options.freeze:
        return None
    runner.Runner(protocol, folders, evidence, options.work / protocol["name"], shlex.split(options.run_prefix),
                  say=_say).run(options.blocks)
    return report.write(evidence)


def _interrupt(signal_number, frame):
    raise KeyboardInterrupt


def main():
    signal.signal(signal.SIGTERM, _interrupt)  # so that an ended session is in the ledger
    try:
        verdicts = _run(_parser().parse_args())
    except LabError as error:
        _say(f"lab: {error}")
        return 1
    except KeyboardInterrupt:
        _say("lab: interrupted; run again to go on")
        return 130
    for verdict in verdicts or []:
        print(json.dumps({"candidate": verdict["candidate"], "verdict": verdict["verdict"]}))
    return 0
