"""Plots as SVG text: the same figures give the same bytes."""
from xml.sax.saxutils import escape

_FONT = 'font-family="DejaVu Sans, Helvetica, Arial, sans-serif"'
_COLOURS = ["#1f6f8b", "#c8553d", "#5b8c5a", "#8d6a9f", "#b08900", "#4f5d75"]


def _number(value):
    return f"{value:.1f}".rstrip("0").rstrip(".")


def _text(x, y, content, size=12, anchor="start", colour="#222", weight="normal"):
    return (f'<text x="{_number(x)}" y="{_number(y)}" {_FONT} font-size="{size}" text-anchor="{anchor}" '
            f'fill="{colour}" font-weight="{weight}">{escape(content)}</text>')


def _page(width, height, body):
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
            f'viewBox="0 0 {width} {height}">\n<rect width="{width}" height="{height}" fill="#fff"/>\n'
            + "\n".join(body) + "\n</svg>\n")


def format_value(value):
    if value == 0:
        return "0"
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def intervals(title, rows, reference=1.0, goals=None, axis="ratio"):
    """Horizontal intervals around a reference line. rows: (label, estimate, low, high, points).
    goals: {row index: value}, drawn as a tick."""
    width, left, top, step = 860, 330, 46, 26
    values = [v for _, e, lo, hi, points in rows for v in (e, lo, hi, *points)] + [reference]
    values += list((goals or {}).values())
    low, high = min(values), max(values)
    pad = (high - low) * 0.06 or 0.05
    low, high = max(0.0, low - pad) if low >= 0 else low - pad, high + pad
    span = width - left - 110
    x = lambda v: left + (v - low) / (high - low) * span  # noqa: E731
    height = top + step * len(rows) + 40
    body = [_text(16, 24, title, 15, weight="bold")]
    bottom = top + step * len(rows)
    body.append(f'<line x1="{_number(x(reference))}" y1="{top - 6}" x2="{_number(x(reference))}" '
                f'y2="{bottom}" stroke="#999" stroke-dasharray="4 3"/>')
    for i, (label, estimate, lo, hi, points) in enumerate(rows):
        y = top + step * i + 10
        body.append(_text(left - 12, y + 4, label, 12, "end"))
        for point in points:
            body.append(f'<circle cx="{_number(x(point))}" cy="{y}" r="2.2" fill="#bbb"/>')
        body.append(f'<line x1="{_number(x(lo))}" y1="{y}" x2="{_number(x(hi))}" y2="{y}" '
                    f'stroke="{_COLOURS[0]}" stroke-width="3"/>')
        body.append(f'<circle cx="{_number(x(estimate))}" cy="{y}" r="4" fill="{_COLOURS[0]}"/>')
        if goals and i in goals:
            g = x(goals[i])
            body.append(f'<line x1="{_number(g)}" y1="{y - 9}" x2="{_number(g)}" y2="{y + 9}" '
                        f'stroke="{_COLOURS[1]}" stroke-width="2"/>')
        body.append(_text(width - 100, y + 4, f"{estimate:.3f}", 12))
    for i in range(5):
        value = low + (high - low) * i / 4
        body.append(_text(x(value), bottom + 18, f"{value:.2f}", 11, "middle", "#666"))
    body.append(_text(left, bottom + 34, axis, 11, colour="#666"))
    return _page(width, height, body)


def bars(title, rows, unit):
    """Horizontal bars. rows: (label, value)."""
    width, left, top, step = 860, 330, 46, 24
    high = max([v for _, v in rows] or [1]) or 1
    span = width - left - 130
    body = [_text(16, 24, title, 15, weight="bold")]
    for i, (label, value) in enumerate(rows):
        y = top + step * i
        body.append(_text(left - 12, y + 13, label, 12, "end"))
        body.append(f'<rect x="{left}" y="{y + 2}" width="{_number(max(1.0, value / high * span))}" height="15" '
                    f'fill="{_COLOURS[i % len(_COLOURS)] if len(rows) <= 6 else _COLOURS[0]}"/>')
        body.append(_text(left + value / high * span + 8, y + 14, f"{format_value(value)} {unit}", 12))
    return _page(width, top + step * len(rows) + 20, body)
