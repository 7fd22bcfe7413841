"""Protocols: read, checked against the schema and for what a schema cannot say, and put in order."""
import itertools
import json
import pathlib

from . import LabError, schema

SCHEMA_FILE = pathlib.Path(__file__).resolve().parents[1] / "protocol.schema.json"


def read(path):
    """The protocol as a dict; LabError with everything that is wrong with it."""
    try:
        text = pathlib.Path(path).read_text(encoding="utf-8")
        protocol = json.loads(text)
    except (OSError, json.JSONDecodeError) as error:
        raise LabError(f"{path}: {error}") from error
    wrong = schema.errors(protocol, json.loads(SCHEMA_FILE.read_text(encoding="utf-8")))
    if not wrong:
        wrong = list(_meaning(protocol))
    if wrong:
        raise LabError(f"{path} is no protocol:\n  " + "\n  ".join(wrong))
    return protocol


def refuse_draft(protocol):
    if protocol["status"] == "draft":
        raise LabError("the protocol is a draft: set its status to \"final\" when question, measure and gate stand")


def _repeated(kind, names):
    for name in sorted({n for n in names if names.count(n) > 1}):
        yield f"two {kind} are named {name!r}"


def _meaning(p):
    arms = {arm["name"]: arm for arm in p["arms"]}
    workloads = {w["name"]: w for w in p["workloads"]}
    yield from _repeated("arms", [a["name"] for a in p["arms"]])
    yield from _repeated("workloads", [w["name"] for w in p["workloads"]])
    for arm in p["arms"]:
        same = arm.get("same_as")
        if same is not None and (same not in arms or "same_as" in arms[same]):
            yield f"arm {arm['name']!r}: same_as names no arm of its own"
        if same is not None and set(arm) - {"name", "what", "same_as"}:
            yield f"arm {arm['name']!r} is the same as {same!r}: it can say nothing else"
        if same is None and "commit" not in arm:
            yield f"arm {arm['name']!r} names no commit"

    def need(kind, name, known):
        if name not in known:
            yield f"{kind} {name!r} is not defined"

    yield from need("baseline", p["baseline"], arms)
    yield from need("tools", p.get("tools", p["baseline"]), arms)
    for name in p["gate"]["candidates"]:
        yield from need("candidate", name, arms)
        if name == p["baseline"]:
            yield "the baseline cannot be a candidate"
    for name in p["primary"]["workloads"]:
        yield from need("workload of the primary metric", name, workloads)
    asked = [(p["primary"]["metric"], w) for w in p["primary"]["workloads"]]
    for control in p["controls"]:
        for role in ("arm", "against"):
            yield from need(f"{role} of control {control['name']!r}:", control[role], arms)
        if control["band"][0] > control["band"][1]:
            yield f"control {control['name']!r}: an empty band"
        if control["kind"] == "same-arm-twice" and arms.get(control["arm"], {}).get("same_as") != control["against"]:
            yield f"control {control['name']!r}: {control['arm']!r} is not the same as {control['against']!r}"
        asked.append((control["metric"], control["workload"]))
    asked += [(c["metric"], c["workload"]) for c in p["gate"]["all"]]
    for metric, workload in asked:
        if workload not in workloads:
            yield f"workload {workload!r} is not defined"
        elif metric not in workloads[workload]["metrics"]:
            yield f"workload {workload!r} has no metric {metric!r}"
    for metric in p.get("secondary", []):
        if not any(metric in w["metrics"] for w in workloads.values()):
            yield f"no workload has the secondary metric {metric!r}"
    for w in workloads.values():
        yield from _repeated(f"steps of {w['name']!r}", [s["name"] for s in w["steps"]])
        if {"server", "delta", "status"} & {s["name"] for s in w["steps"]}:
            yield f"workload {w['name']!r}: the step names server, delta and status are taken"
    each = len(design(len(arms), p["order"]["design"]))
    if p["blocks"] % each != 0:
        yield f"blocks must be a multiple of {each}, so that each of the {each} arm orders is used equally often"


def design(count, kind):
    """Arm orders, as tuples of arm numbers, each of which is used equally often.
    all: every permutation. williams: each arm at each place, and each arm before each other, equally often."""
    if kind == "all":
        return list(itertools.permutations(range(count)))
    first = [0]
    low, high = 1, count - 1
    while len(first) < count:
        first.append(low)
        low += 1
        if len(first) < count:
            first.append(high)
            high -= 1
    rows = [tuple((at + shift) % count for at in first) for shift in range(count)]
    return rows if count % 2 == 0 else rows + [row[::-1] for row in rows]


def orders(protocol):
    """The order of the arms in each block: shuffled, stratum by stratum of the whole design."""
    from harness.stats import Random
    names = [arm["name"] for arm in protocol["arms"]]
    each = design(len(names), protocol["order"]["design"])
    random = Random(protocol["order"]["seed"])
    out = []
    for _ in range(protocol["blocks"] // len(each)):
        stratum = list(each)
        random.shuffle(stratum)
        out += [[names[i] for i in row] for row in stratum]
    return out


def build_of(protocol, arm_name):
    """What an arm is built and configured from; that of its original for an arm that is the same as another."""
    arms = {arm["name"]: arm for arm in protocol["arms"]}
    arm = arms[arm_name]
    return arms[arm["same_as"]] if "same_as" in arm else arm


def tools_arm(protocol):
    return protocol.get("tools", protocol["baseline"])
