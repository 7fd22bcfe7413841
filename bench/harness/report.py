"""Reports of bench/run: JSON that keeps every figure, a Markdown table, plots, and the difference to another."""
import json

from . import svg

VERSION = 1


def _ratio(ratio):
    return f"{ratio['median']:.2f} ({ratio['min']:.2f} to {ratio['max']:.2f})"


def _table(head, rows):
    line = lambda cells: "| " + " | ".join(str(c).replace("|", "\\|") for c in cells) + " |"  # noqa: E731
    return [line(head), line("---" for _ in head), *(line(r) for r in rows), ""]


def _goal_text(entry):
    out = []
    for goal in entry["goals"]:
        met = {True: "met", False: "**missed**", None: "not measured"}[goal["met"]]
        out.append(f"{goal['is']} {goal['value']}x {goal['side']}: {met}")
    return "; ".join(out)


def _rows_of(entries, sides):
    rows = []
    for e in entries:
        cells = [e["title"], e["unit"]]
        cells += [svg.format_value(e["sides"][s]["median"]) if s in e["sides"] else "" for s in sides]
        cells.append(_goal_text(e))
        rows.append(cells)
    return rows


def write(report, folder):
    """report.json, report.md and plots/ in `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "plots").mkdir(exist_ok=True)
    (folder / "report.json").write_text(json.dumps(report, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    (folder / "report.md").write_text(markdown(report, folder), encoding="utf-8")


def markdown(report, folder):
    machine = report["machine"]
    out = [f"# Benchmarks of {report['commit'][:12]}", "",
           f"{report['date']}. {machine['cpu']}, {machine['processors']} processors"
           f"{' (virtual)' if machine['virtual'] else ''}, {machine['memory_mib']} MiB, Linux {machine['kernel']}, "
           f"{machine['file_system']['type']}. Made by `{report['command']}`.", "",
           "Medians of what was kept. Sides alternate forward and backward in one session; the first rotation is "
           "discarded, and so is a pair around which a probe of the machine moved by more than 25%. Ratios are MultiforaDB over "
           "the other side, the median of the pairs with min and max. `again` is the same binary under another name: "
           "its ratios say how much of any other is noise. Read rows were checked for equal answers first.", "",
           "Sides: " + "; ".join(f"{name} {s['version']} ({s['durable']})" for name, s in report["sides"].items()) + ".", ""]
    out += [f"Left out: {why}." for why in report["left_out"]] + [""]
    for data in report["sets"]:
        out += [f"## {data['name']}: {data['documents']:,} documents of {data['size']:,} bytes"
                f"{' at most, mixed sizes' if data['mixed'] else ''}, text-like", ""]
        sides = [s for s in report["sides"] if any(s in e["sides"] for e in data["rows"])]
        out += _table(["row", "unit", *sides, "goals"], _rows_of(data["rows"], sides))
        ratios = [s for s in sides if any(s in e["ratios"] for e in data["rows"])]
        out += ["Ratios, MultiforaDB over the side:", "", *_table(["row", *ratios, "pairs dropped"], [
            [e["title"], *(_ratio(e["ratios"][s]) if s in e["ratios"] else "" for s in ratios), e["dropped"] or ""]
            for e in data["rows"]])]
        out += ["Blocks allocated, MB: " + "; ".join(
            f"{name} " + ", ".join(f"{part} {size / 1e6:,.0f}" for part, size in sizes.items())
            for name, sizes in data["sizes"].items()) + ".", ""]
        for name, figures in data["driver"].items():
            out += [f"Through the Node driver, {name} (us, p50; inserts: documents/s): "
                    + ", ".join(f"{row} {svg.format_value(value)}" for row, value in figures.items()) + ".", ""]
        for side in ratios:
            plotted = [e for e in data["rows"] if side in e["ratios"]]
            file = f"{data['name']}-{side}.svg"
            goals = {i: g["value"] for i, e in enumerate(plotted) for g in e["goals"] if g["side"] == side}
            (folder / "plots" / file).write_text(svg.intervals(
                f"MultiforaDB / {side}, {data['name']}",
                [(e["title"][:46], r["median"], r["min"], r["max"], r["pairs"]) for e in plotted for r in [e["ratios"][side]]],
                goals=goals, axis="ratio; bar: min to max, red: goal"), encoding="utf-8")
            out += [f"![{side}](plots/{file})", ""]
    if report["life"]:
        out += ["## A server's life", "", *_table(["row", "found", "unit", "goal", ""], [
            [e["title"], svg.format_value(e["value"]), e["unit"], " ".join(map(str, e["goal"])) if e["goal"] else "",
             {True: "met", False: "**missed**", None: ""}[e["met"]]] for e in report["life"]])]
    return "\n".join(out).rstrip() + "\n"


def difference(old, new):
    """Lines that compare two reports of the same machine and rows: medians of MultiforaDB and, which is what can be
    trusted between sessions, its ratios to the floors and peers."""
    if old["version"] != new["version"]:
        return [f"the last report has version {old['version']}: not compared"]
    lines = [f"Difference to {old['commit'][:12]} of {old['date']} (ratios to the same side; A/A: spread of one binary in the two "
             "sessions):"]
    before = {(d["name"], e["row"]): e for d in old["sets"] for e in d["rows"]}
    for data in new["sets"]:
        for e in data["rows"]:
            was = before.get((data["name"], e["row"]))
            if was is None or "multifora" not in was["sides"] or "multifora" not in e["sides"]:
                continue
            noise = [f"{r['min']:.2f} to {r['max']:.2f}" for r in (was["ratios"].get("again"), e["ratios"].get("again")) if r]
            moves = [f"{side} {was['ratios'][side]['median']:.2f} -> {ratio['median']:.2f}"
                     for side, ratio in e["ratios"].items() if side != "again" and side in was["ratios"]]
            lines.append(f"  {data['name'] + ' ' + e['row']:24} {was['sides']['multifora']['median']:>12.1f} -> "
                         f"{e['sides']['multifora']['median']:<12.1f} {', '.join(moves)}"
                         + (f"   [A/A {'; '.join(noise)}]" if noise else ""))
    return lines
