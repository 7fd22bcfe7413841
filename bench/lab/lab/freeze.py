"""Freezing: what an experiment is, fixed by hashes before its first process runs, and found again at
every later step. An edited protocol, patch, laboratory or binary is refused by name."""
import json
import pathlib

from harness import machine

from . import LabError, ledger, protocol as protocols

_LAB = pathlib.Path(__file__).resolve().parents[1]


def lab_sources():
    """One hash of the laboratory's own code: it decides what a figure means."""
    shared = ["machine.py", "probes.py", "process.py", "stats.py", "wire.py"]
    files = [*_LAB.glob("lab/*.py"), _LAB / "protocol.schema.json", *(_LAB.parent / "harness" / name for name in shared)]
    names = sorted((f.relative_to(_LAB.parent).as_posix(), ledger.sha256_file(f)) for f in files)
    return ledger.sha256_text(ledger.canonical(names))


class Evidence:
    """The evidence folder of one experiment."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.protocol_file = self.folder / "protocol.json"
        self.freeze_file = self.folder / "freeze.json"
        self.raw = self.folder / "raw"
        self.ledger = ledger.Ledger(self.folder / "ledger.jsonl")

    @property
    def frozen(self):
        return self.freeze_file.exists()

    def read_freeze(self):
        return json.loads(self.freeze_file.read_text(encoding="utf-8"))


def _sources(protocol, protocol_path):
    """Hashes of the files of an experiment that people write."""
    folder = pathlib.Path(protocol_path).parent
    out = {"protocol.json": ledger.sha256_file(protocol_path)}
    for arm in protocol["arms"]:
        if "patch" in arm:
            out[arm["patch"]] = ledger.sha256_file(folder / arm["patch"])
    return out


def freeze(protocol_path, evidence, builder):
    """Builds every arm and fixes everything. Returns {arm: folder of its binaries}. Where the experiment is
    frozen already: checks that all of it is still the same."""
    protocol = protocols.read(protocol_path)
    protocols.refuse_draft(protocol)
    sources = _sources(protocol, protocol_path)
    if evidence.frozen:
        check_sources(evidence, sources)
        if evidence.read_freeze()["lab"] != lab_sources():
            _refuse(evidence, "the laboratory's code has changed since the freeze: "
                              "check out the version that froze it, or begin a new experiment")
    elif evidence.ledger.of("frozen"):
        raise LabError("the ledger knows a freeze whose file is gone: restore freeze.json")
    built, folders = {}, {}
    by_inputs = {}
    for arm in protocol["arms"]:
        made_from = protocols.build_of(protocol, arm["name"])
        try:
            result = by_inputs.get(made_from["name"]) or builder.build(made_from, pathlib.Path(protocol_path).parent)
        except LabError as error:
            evidence.ledger.append("build-refused", {"arm": arm["name"], "why": str(error)[:2000]})
            raise
        by_inputs[made_from["name"]] = result
        folders[arm["name"]] = result["path"]
        built[arm["name"]] = {k: v for k, v in result.items() if k != "path"}
    if evidence.frozen:
        if evidence.read_freeze()["arms"] != built:
            _refuse(evidence, "the arms' builds are not those that were frozen (compiler, packages or sources differ)")
        return protocol, folders
    record = {"sources": sources, "lab": lab_sources(), "arms": built,
              "orders": protocols.orders(protocol), "machine": machine.facts(evidence.folder.parent)}
    evidence.folder.mkdir(parents=True, exist_ok=True)
    evidence.protocol_file.write_bytes(pathlib.Path(protocol_path).read_bytes())
    evidence.freeze_file.write_text(json.dumps(record, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    evidence.ledger.append("frozen", {"freeze": ledger.sha256_file(evidence.freeze_file), "sources": sources,
                                      "binaries": {arm: b["binaries"] for arm, b in built.items()}})
    return protocol, folders


def _refuse(evidence, why):
    evidence.ledger.append("refused", {"why": why})
    raise LabError(why)


def check_sources(evidence, sources):
    frozen = evidence.read_freeze()["sources"]
    for name in sorted(set(frozen) | set(sources)):
        if frozen.get(name) != sources.get(name):
            _refuse(evidence, f"{name} was edited after the freeze: what has been registered stays; "
                              "ask another question in a protocol of its own")


def verify(evidence):
    """Checks everything in an evidence folder against its ledger. The frozen protocol."""
    frozen = evidence.ledger.of("frozen")
    if not evidence.frozen or len(frozen) != 1:
        raise LabError(f"{evidence.folder} holds no frozen experiment")
    if ledger.sha256_file(evidence.freeze_file) != frozen[0]["data"]["freeze"]:
        raise LabError("freeze.json was edited after the freeze")
    if ledger.sha256_file(evidence.protocol_file) != frozen[0]["data"]["sources"]["protocol.json"]:
        raise LabError("protocol.json in the evidence folder was edited after the freeze")
    for entry in evidence.ledger.entries:
        if entry["data"].get("file") is None:
            continue
        file = evidence.folder / entry["data"]["file"]
        if not file.is_file():
            raise LabError(f"{entry['data']['file']} is missing from the evidence")
        if ledger.sha256_file(file) != entry["data"]["sha256"]:
            raise LabError(f"{entry['data']['file']} was edited after it was recorded")
    return protocols.read(evidence.protocol_file)
