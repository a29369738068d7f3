"""Templates in Go's ``text/template`` syntax, the convention of alerting systems.

    engine = TemplateEngine(field_functions(time.time, timezone.utc))
    template = engine.compile("title", "{{$event.RuleName}}: {{$value | humanize}}", preamble=(("$event", ".event"), ...))
    template.render({"event": EVENT.wrap(event)})

Templates reach the data they are given and the declared functions, never a Python attribute; work, output and nesting are
bounded; every failure is a :class:`TemplateError`.
"""

from .compiler import Mode, Template
from .engine import CacheInfo, Preamble, TemplateEngine
from .errors import CallError, Limits, Reason, TemplateError
from .functions import field_functions
from .values import NO_VALUE, Field, Function, Record, SafeHTML, SafeURL, StringMap, Struct, StructType

__all__ = [
    "NO_VALUE",
    "CacheInfo",
    "CallError",
    "Field",
    "Function",
    "Limits",
    "Mode",
    "Preamble",
    "Reason",
    "Record",
    "SafeHTML",
    "SafeURL",
    "StringMap",
    "Struct",
    "StructType",
    "Template",
    "TemplateEngine",
    "TemplateError",
    "field_functions",
]
