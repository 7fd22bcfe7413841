"""The report of an evidence folder, in Markdown with SVG plots. Nothing in it comes from anywhere else, and the
same evidence gives the same bytes."""
import json

from harness import svg

from . import analysis, freeze


def _number(value):
    return "-" if value is None else svg.format_value(value)


def _interval(effect):
    return f"{effect['estimate']:.3f} ({effect['low']:.3f} to {effect['high']:.3f})"


def _table(head, rows):
    line = lambda cells: "| " + " | ".join(str(c).replace("|", "\\|") for c in cells) + " |"  # noqa: E731
    return [line(head), line("---" for _ in head), *(line(r) for r in rows), ""]


def _arms(protocol, frozen):
    rows = []
    for arm in protocol["arms"]:
        if "same_as" in arm:
            rows.append((arm["name"], f"the same as `{arm['same_as']}`, under another name", "", ""))
            continue
        settings = [*(f"-D{k}={v}" for k, v in arm.get("options", {}).items())]
        settings += [f"plugins {' '.join(arm['plugins'])}"] if "plugins" in arm else []
        settings += [json.dumps(arm["config"], sort_keys=True)] if "config" in arm else []
        settings += [f"{k}={v}" for k, v in arm.get("vars", {}).items()]
        patch = f" + {arm['patch']}" if "patch" in arm else ""
        rows.append((arm["name"], arm.get("what", ""), f"`{arm['commit'][:12]}`{patch}", f"`{'; '.join(settings)}`"
                     if settings else ""))
    out = ["## Arms", "", *_table(["arm", "what", "commit", "settings"], rows),
           f"Baseline: `{protocol['baseline']}`. Every arm was built twice, the second time in another folder and "
           "without a compiler cache; the binaries were the same byte for byte:", ""]
    binaries = {}
    for arm, built in frozen["arms"].items():
        for name, digest in built["binaries"].items():
            binaries.setdefault((name, digest), []).append(arm)
    return out + _table(["binary", "SHA-256", "arms"], [(n, f"`{d[:16]}`", ", ".join(a))
                                                        for (n, d), a in sorted(binaries.items())])


def _workloads(protocol):
    out = ["## Workloads and metrics", ""]
    for workload in protocol["workloads"]:
        out.append(f"- `{workload['name']}`: {workload.get('what', '')}")
        out += [f"  - step `{s['name']}`: `{' '.join(s['run'])}`" for s in workload["steps"]]
        for name, how in workload["metrics"].items():
            text = how["value"] + (f" - {how['minus']}" if "minus" in how else "")
            text = f"({text}) / {how['over']}" if "over" in how else text
            unit = f", {how['unit']}" if how.get("unit") else ""
            out.append(f"  - metric `{name}` = {text}{unit}")
    return out + [""]


def _controls(controls):
    rows = []
    for c in controls:
        rows.append((c["name"], c["kind"], f"{c['workload']}, {c['metric']}", f"{c['arm']} / {c['against']}",
                     _interval(c["effect"]) if c["effect"] else "-", f"{c['band'][0]} to {c['band'][1]}",
                     "in its band" if c["held"] else "**OUT OF ITS BAND**"))
    out = ["## Controls", "", *_table(["control", "kind", "measured on", "ratio of", "found", "band", ""], rows)]
    for c in controls:
        if not c["held"]:
            where = c["guards"].get("workloads")
            out.append(f"Control \"{c['name']}\" is out of its band: nothing may be claimed here about "
                       f"{', '.join(c['guards']['metrics'])}" + (f" on {', '.join(where)}" if where else "")
                       + ". An effect of that size was seen where there can be none.")
    if all(c["held"] for c in controls):
        out.append("Every control is in its band.")
    return out + [""]


def _effects(protocol, data, controls, metrics_of, heading):
    rows = []
    for workload, arm, metric, effect in analysis.comparisons(protocol, data, metrics_of):
        reasons = analysis.why_not(protocol, data, controls, workload, metric)
        rows.append((workload, metric, _number(data.median(workload, protocol["baseline"], metric)), arm,
                     _number(data.median(workload, arm, metric)), _interval(effect), effect["pairs"],
                     "no claim: " + "; ".join(reasons) if reasons else ""))
    if not rows:
        return []
    return [heading, "", *_table(["workload", "metric", f"{protocol['baseline']}, median", "arm", "median",
                                  f"ratio to {protocol['baseline']} (interval)", "pairs", ""], rows)]


def _exclusions(protocol, data, evidence):
    rule = protocol["exclusions"]
    out = ["## Exclusions", "", f"A block of a workload is left out where a probe of the machine moved by more than "
           f"{rule['probe_move_max']:.0%} around it; nothing is claimed where more than {rule['excluded_max']:.0%} of the "
           "blocks are.", ""]
    for workload, excluded in data.excluded.items():
        text = ", ".join(f"{block} ({move:.0%})" for block, move in excluded) or "none"
        out.append(f"- `{workload}`: {text}")
    aborted = evidence.ledger.of("aborted")
    out += [f"- aborted attempts: {len(aborted)}"]
    out += [f"  - {e['data']['block']} at {e['at']}: {e['data']['why'].splitlines()[0][:160]}" for e in aborted]
    return out + [""]


def _verdicts(protocol, verdicts):
    out = ["## Gate", ""]
    for v in verdicts:
        rows = []
        for c in v["conditions"]:
            found = "-" if c["found"] is None else f"{c['found']:.3f}"
            says = {True: "holds", False: "does not hold", None: "no claim: " + "; ".join(c["why_not"])}[c["holds"]]
            rows.append((f"{c['bound']} of {c['metric']} on {c['workload']} {c['is']} {c['value']}", found, says,
                         c.get("why", "")))
        out += [f"`{v['candidate']}`: **{v['verdict']}**", "", *_table(["condition", "found", "", "why asked"], rows)]
    return out


def _after_the_fact(protocol, data, controls, evidence):
    out = ["## After the fact", "",
           "Analyses that were not registered before the data was seen. They suggest the next experiment and show "
           "nothing by themselves.", ""]
    entries = evidence.ledger.of("after-the-fact")
    if not entries:
        return out + ["None.", ""]
    for entry in entries:
        extra = analysis.read_extra(evidence.folder / entry["data"]["file"], protocol)
        rows = []
        for c in extra["compare"]:
            effect = data.effect(c["workload"], c["arm"], c["against"], c["metric"])
            if effect:
                reasons = analysis.why_not(protocol, data, controls, c["workload"], c["metric"])
                rows.append((c["workload"], c["metric"], f"{c['arm']} / {c['against']}", _interval(effect),
                             "; ".join(reasons)))
        out += [f"### {extra['name']} ({entry['at'][:10]})", "", extra["why"], "",
                *_table(["workload", "metric", "ratio of", "found", "doubt"], rows)]
    return out


def _plots(protocol, data, evidence, names):
    """A plot a metric: every arm and workload."""
    folder = evidence.folder / "plots"
    folder.mkdir(exist_ok=True)
    made = []
    for metric in names:
        rows = [(f"{workload}: {arm}", e["estimate"], e["low"], e["high"], e["each"]) for workload, arm, _, e in
                analysis.comparisons(protocol, data, lambda w: [metric] if metric in w["metrics"] else [])]
        if rows:
            file = folder / f"{metric}.svg"
            title = f"{metric}, ratio to {protocol['baseline']}"
            file.write_text(svg.intervals(title, rows, axis="ratio; bar: interval, grey: single pairs"), encoding="utf-8")
            made.append(f"![{metric}](plots/{file.name})")
    return made


def write(evidence):
    """Checks the evidence and writes report.md and plots/ into its folder. The verdicts."""
    protocol = freeze.verify(evidence)
    frozen = evidence.read_freeze()
    data = analysis.Data(protocol, evidence)
    controls = analysis.check_controls(protocol, data)
    verdicts = analysis.judge(protocol, data, controls)
    primary = protocol["primary"]
    named = [primary["metric"], *[m for m in protocol.get("secondary", []) if m != primary["metric"]]]
    started = evidence.ledger.of("frozen")[0]
    machine = frozen["machine"]
    text = [f"# {protocol['name']}", "", protocol["question"], ""]
    text += [protocol["background"], ""] if "background" in protocol else []
    text += [f"Frozen {started['at']} (`{started['hash'][:16]}`), {len(data.blocks)} of {protocol['blocks']} blocks run; last "
             f"block's ledger hash `{(evidence.ledger.of('block') or [started])[-1]['hash'][:16]}`. Machine: {machine['cpu']}, "
             f"{machine['processors']} processors{' (virtual)' if machine['virtual'] else ''}, {machine['memory_mib']} MiB, "
             f"Linux {machine['kernel']}, {machine['file_system']['type']}.", ""]
    text += _controls(controls)
    text += [f"## Effects", "", f"Median of per-block ratios, with the {protocol['bootstrap']['confidence']:.0%} interval of a "
             f"paired bootstrap. The primary metric is `{primary['metric']}` ({primary['better']} is better) on "
             f"{', '.join(primary['workloads'])}; all of this was registered before the first run.", ""]
    text += _effects(protocol, data, controls, lambda w: [primary["metric"]] if w["name"] in primary["workloads"] else [],
                     "### Primary")
    text += _effects(protocol, data, controls, lambda w: [m for m in named if m in w["metrics"]
                     and not (m == primary["metric"] and w["name"] in primary["workloads"])], "### Secondary")
    text += _plots(protocol, data, evidence, named) + [""]
    text += _exclusions(protocol, data, evidence) + _after_the_fact(protocol, data, controls, evidence)
    text += _arms(protocol, frozen) + _workloads(protocol)
    text += _verdicts(protocol, verdicts)
    (evidence.folder / "report.md").write_text("\n".join(text).rstrip() + "\n", encoding="utf-8")
    return verdicts
