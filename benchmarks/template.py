"""Rendering speed of message templates against Jinja2 in the same minute: `python benchmarks/template.py`.

Prints microseconds of CPU per rendering for three templates, ours and Jinja2's, and the ratio (below 1: ours is faster).
Needs Jinja2, which the product does not use: `pip install jinja2`. `--json FILE` writes the figures.
"""

from __future__ import annotations

import argparse
import gc
import json
import platform
import time
from collections.abc import Callable
from datetime import UTC
from pathlib import Path
from typing import Any

import jinja2

from tocsin.template import Mode, TemplateEngine, field_functions
from tocsin.template.event import EVENT, MESSAGE_VARIABLES

TAGS = {f"label{number}": f"value <{number}>" for number in range(8)}
ALERT: dict[str, Any] = {
    "id": 7,
    "rule_name": "CPU busy",
    "severity": 2,
    "trigger_value": "81.5",
    "trigger_time": 1735689600,
    "is_recovered": False,
    "tags_map": TAGS,
}
MESSAGE = """S{{$event.Severity}} {{if $event.IsRecovered}}Recovered{{else}}Triggered{{end}}
Rule: {{$event.RuleName}}{{if $event.RuleNote}} ({{$event.RuleNote}}){{end}}
{{range $key, $val := $labels}}{{if ne $key "rulename"}}{{$key}}: {{$val}}
{{end}}{{end}}Value: {{$value | printf "%.2f"}}
Link: {{.domain}}/share/alert-his-events/{{$event.Id}}
"""
MESSAGE_JINJA = """S{{event.Severity}} {% if event.IsRecovered %}Recovered{% else %}Triggered{% endif %}
Rule: {{event.RuleName}}{% if event.RuleNote %} ({{event.RuleNote}}){% endif %}
{% for key, val in labels.items()|sort %}{% if key != "rulename" %}{{key}}: {{val}}
{% endif %}{% endfor %}Value: {{"%.2f"|format(value|float)}}
Link: {{domain}}/share/alert-his-events/{{event.Id}}
"""
SHORT = "{{$labels.label1}} is at {{$value}}"
SHORT_JINJA = "{{labels.label1}} is at {{value}}"
LOOP = "{{range .items}}<li>{{.name}}: {{.value}}</li>{{end}}"
LOOP_JINJA = "{% for item in items %}<li>{{item.name}}: {{item.value}}</li>{% endfor %}"


def measure(run: Callable[[], Any]) -> float:
    """Best microseconds of CPU per call over five rounds of about 0.2 s; the first round is discarded."""
    started = time.process_time()
    count = 0
    while time.process_time() - started < 0.1:
        run()
        count += 1
    gc.collect()
    rounds = []
    for _ in range(6):
        started = time.process_time()
        for _ in range(2 * count):
            run()
        rounds.append((time.process_time() - started) / (2 * count))
    return min(rounds[1:]) * 1e6


def cases() -> list[tuple[str, Callable[[], str], Callable[[], str]]]:
    """Name, our rendering, Jinja2's."""
    engine = TemplateEngine(field_functions(time.time, UTC))
    jinja = jinja2.Environment(autoescape=True)
    data = {"events": [EVENT.wrap(ALERT)], "domain": "http://x"}
    flat = {
        "event": {"Severity": 2, "IsRecovered": False, "RuleName": "CPU busy", "RuleNote": "", "Id": 7},
        "labels": TAGS,
        "value": "81.5",
        "domain": "http://x",
    }
    items = {"items": [{"name": f"item {number}", "value": number} for number in range(200)]}
    message = engine.compile("message", MESSAGE, Mode.HTML, MESSAGE_VARIABLES)
    short = engine.compile("short", SHORT, Mode.HTML, MESSAGE_VARIABLES)
    loop = engine.compile("loop", LOOP, Mode.HTML)
    message_j, short_j, loop_j = map(jinja.from_string, (MESSAGE_JINJA, SHORT_JINJA, LOOP_JINJA))
    found = [
        ("message", lambda: message.render(data), lambda: message_j.render(flat)),
        ("short", lambda: short.render(data), lambda: short_j.render(flat)),
        ("loop of 200", lambda: loop.render(items), lambda: loop_j.render({"items": items["items"]})),
    ]
    for name, ours, theirs in found:
        if ours().split() != theirs().split():
            raise SystemExit(f"{name}: the two renderings differ\n{ours()}\n{theirs()}")
    return found


def main() -> None:
    """Measure, print, optionally write JSON."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--json", type=Path)
    path = arguments.parse_args().json
    rows = []
    for name, ours, theirs in cases():
        mine, other = measure(ours), measure(theirs)
        rows.append(
            {"case": name, "tocsin_us": round(mine, 2), "jinja2_us": round(other, 2), "ratio": round(mine / other, 2)}
        )
        print(f"{name:12} tocsin {mine:8.2f} us  jinja2 {other:8.2f} us  ratio {mine / other:.2f}")
    engine = TemplateEngine(field_functions(time.time, UTC), cache_size=0)
    compiling = measure(lambda: engine.compile("message", MESSAGE, Mode.HTML, MESSAGE_VARIABLES))
    print(f"{'compiling':12} tocsin {compiling:8.2f} us")
    if path:
        about = {"python": platform.python_version(), "machine": platform.machine(), "jinja2": jinja2.__version__}
        path.write_text(json.dumps({**about, "compile_us": round(compiling, 2), "rows": rows}, indent=1))


if __name__ == "__main__":
    main()
