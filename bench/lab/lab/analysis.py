"""Analysis: from the raw files of an evidence folder to effects, controls and verdicts. Pure: the same evidence
gives the same result to the last digit."""
import json
import statistics

from harness import probes, stats

from . import LabError, ledger


class Data:
    """Metrics by (workload, arm, block), with the blocks that the exclusions leave out."""

    def __init__(self, protocol, evidence):
        self.protocol = protocol
        self.values = {}
        self.excluded = {w["name"]: [] for w in protocol["workloads"]}
        self.blocks = []
        limit = protocol["exclusions"]["probe_move_max"]
        for entry in evidence.ledger.of("block"):
            if entry["data"]["block"].startswith("warm-up"):
                continue
            record = json.loads((evidence.folder / entry["data"]["file"]).read_text(encoding="utf-8"))
            self.blocks.append(record["block"])
            for unit in record["units"]:
                move = probes.moved(unit["before"], unit["after"])
                if move > limit:
                    self.excluded[unit["workload"]].append((record["block"], move))
                    continue
                for run in unit["runs"]:
                    self.values[unit["workload"], run["arm"], record["block"]] = run["metrics"]

    @property
    def complete(self):
        return len(self.blocks) == self.protocol["blocks"]

    def usable(self, workload):
        """Whether few enough blocks were excluded."""
        most = self.protocol["exclusions"]["excluded_max"]
        return len(self.excluded[workload]) <= most * max(len(self.blocks), 1)

    def column(self, workload, arm, metric):
        return [self.values[workload, arm, b][metric] for b in self.blocks if (workload, arm, b) in self.values]

    def median(self, workload, arm, metric):
        column = self.column(workload, arm, metric)
        return statistics.median(column) if column else None

    def effect(self, workload, arm, against, metric):
        """arm over against. The seed depends on the question, so that no effect changes with the others."""
        how = self.protocol["bootstrap"]
        text = f"{how['seed']}|{workload}|{arm}|{against}|{metric}"
        seed = int(ledger.sha256_text(text)[:16], 16)
        ours, theirs = self.column(workload, arm, metric), self.column(workload, against, metric)
        found = stats.paired_effect(ours, theirs, how["resamples"], how["confidence"], seed)
        if found:
            found["each"] = stats.ratios(ours, theirs)
        return found


def check_controls(protocol, data):
    """Each control with its effect and whether all of its interval lies in the band."""
    out = []
    for control in protocol["controls"]:
        effect = data.effect(control["workload"], control["arm"], control["against"], control["metric"])
        low, high = control["band"]
        held = effect is not None and low <= effect["low"] and effect["high"] <= high
        out.append({**control, "effect": effect, "held": held})
    return out


def why_not(protocol, data, controls, workload, metric):
    """Reasons for which nothing may be claimed about a metric on a workload; empty: it may."""
    out = []
    if not data.complete:
        out.append(f"{len(data.blocks)} of {protocol['blocks']} blocks have run")
    if not data.usable(workload):
        out.append(f"{len(data.excluded[workload])} blocks of {workload} were excluded")
    for control in controls:
        guards = control["guards"]
        on_workload = workload in guards.get("workloads", [w["name"] for w in protocol["workloads"]])
        if not control["held"] and metric in guards["metrics"] and on_workload:
            out.append(f"control \"{control['name']}\" is out of its band")
    return out


def judge(protocol, data, controls):
    """Per candidate: every condition of the gate, and the verdict."""
    verdicts = []
    for candidate in protocol["gate"]["candidates"]:
        conditions = []
        for condition in protocol["gate"]["all"]:
            effect = data.effect(condition["workload"], candidate, protocol["baseline"], condition["metric"])
            against = why_not(protocol, data, controls, condition["workload"], condition["metric"])
            value = effect[condition["bound"]] if effect else None
            holds = None
            if value is not None and not against:
                holds = value <= condition["value"] if condition["is"] == "<=" else value >= condition["value"]
            conditions.append({**condition, "found": value, "holds": holds, "why_not": against})
        if any(c["holds"] is False for c in conditions):
            verdict = "not adopted"
        elif all(c["holds"] for c in conditions):
            verdict = "adopted"
        else:
            verdict = "no verdict"
        verdicts.append({"candidate": candidate, "conditions": conditions, "verdict": verdict})
    return verdicts


def comparisons(protocol, data, metrics_of):
    """(workload, arm, metric, effect) of every arm that is no second name of another, against the baseline."""
    for workload in protocol["workloads"]:
        for metric in metrics_of(workload):
            for arm in protocol["arms"]:
                if arm["name"] == protocol["baseline"] or "same_as" in arm:
                    continue
                effect = data.effect(workload["name"], arm["name"], protocol["baseline"], metric)
                if effect:
                    yield workload["name"], arm["name"], metric, effect


def read_extra(path, protocol):
    """An after-the-fact analysis: {"name", "why", "compare": [{workload, metric, arm, against}]}."""
    extra = json.loads(path.read_text(encoding="utf-8"))
    workloads = {w["name"]: w for w in protocol["workloads"]}
    arms = {a["name"] for a in protocol["arms"]}
    try:
        good = all(c["metric"] in workloads[c["workload"]]["metrics"] and {c["arm"], c["against"]} <= arms
                   for c in extra["compare"]) and extra["name"] and extra["why"]
    except (KeyError, TypeError) as error:
        raise LabError(f"{path}: an after-the-fact analysis lacks or misnames {error}") from error
    if not good:
        raise LabError(f"{path}: a metric or an arm that the protocol does not know")
    return extra
