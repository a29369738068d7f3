"""Syntax tree to closures, once per template; a rendering only calls them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any

from . import html_context, nodes
from .errors import Limits, Reason, TemplateError, locate
from .expressions import Expressions
from .html_context import Context, ContextError
from .runtime import BREAK, CONTINUE, Expression, Place, Run, Step
from .show import show, sorted_keys, sprint
from .values import NO_VALUE, Function, truth


class Mode(StrEnum):
    """How printed values are escaped."""

    TEXT = "text"
    HTML = "html"


class Body:
    """A compiled definition; filled after creation, so that definitions may call themselves."""

    __slots__ = ("slots", "step")

    def __init__(self, slots: int) -> None:
        self.slots = slots
        self.step: Step = _nothing


class Compiler:
    """Compiles one unit; named templates are compiled when first called, once per place they are called from."""

    def __init__(self, unit: nodes.Unit, functions: Mapping[str, Function], mode: Mode) -> None:
        self.unit = unit
        self.functions = functions
        self.mode = mode
        self.bodies: dict[tuple[str, Context], tuple[Body, Context]] = {}

    def main(self) -> Body:
        """The whole template's body."""
        body, context = self._build(self.unit.main, html_context.TEXT)
        if context.state not in ("text", "comment"):
            line = self.unit.source.count("\n") + 1
            message = f"ends in a non-text context: {context.state}"
            raise TemplateError(self.unit.name, line, None, message, Reason.SYNTAX)
        return body

    def named(self, name: str, context: Context) -> tuple[Body, Context] | None:
        """A defined template as called in ``context``, and the place after it; ``None`` if it is not defined."""
        known = self.bodies.get((name, context))
        if known is not None:
            return known
        definition = self.unit.definitions.get(name)
        if definition is None:
            return None
        return self._build(definition, context)

    def _build(self, definition: nodes.Definition, context: Context) -> tuple[Body, Context]:
        body = Body(definition.slots)
        key = (definition.name, context)
        # A recursive call meets this entry and takes it that the template ends where it begins.
        self.bodies[key] = (body, context)
        items = _Items(self, definition.name, context)
        body.step = items.sequence(definition.body)
        self.bodies[key] = (body, items.context)
        return self.bodies[key]


class _Items:
    """Compiles the items of one definition in order, following the place in the page in HTML mode."""

    def __init__(self, compiler: Compiler, definition: str, context: Context) -> None:
        self.compiler = compiler
        self.definition = definition
        self.context = context
        self.html = compiler.mode is Mode.HTML
        self.expressions = Expressions(compiler.unit, definition, compiler.functions)
        self.loops: list[Context] = []

    def sequence(self, body: Sequence[nodes.Node]) -> Step:
        """One step for a list of items."""
        steps = [step for step in (self.item(node) for node in body) if step is not None]
        return _chain(steps)

    def item(self, node: nodes.Node) -> Step | None:
        """The step of one item, ``None`` if it does nothing."""
        if isinstance(node, nodes.Text):
            return self._text(node)
        if isinstance(node, nodes.Action):
            return self._action(node)
        if isinstance(node, nodes.Branch):
            return self._range(node) if node.keyword == "range" else self._branch(node)
        if isinstance(node, nodes.Jump):
            signal = BREAK if node.keyword == "break" else CONTINUE
            return lambda run, dot: signal
        if isinstance(node, nodes.Call):
            return self._call(node)
        raise self.expressions.place(node).fault("unknown item")

    def _syntax(self, node: nodes.Node, message: str) -> TemplateError:
        unit = self.compiler.unit
        return TemplateError(unit.name, locate(unit.source, node.pos)[0], None, message, Reason.SYNTAX)

    # -- output ------------------------------------------------------------------------------------------------------

    def _text(self, node: nodes.Text) -> Step | None:
        text = node.text
        if self.html:
            try:
                self.context, text = html_context.read(self.context, text)
            except ContextError as error:
                raise self._syntax(node, str(error)) from None
        if not text:
            return None
        size = len(text)
        place = self.expressions.place(node)

        def write(run: Run, dot: Any) -> int:
            run.room -= size
            if run.room < 0:
                raise _too_long(place)
            run.out.append(text)
            return 0

        return write

    def _action(self, node: nodes.Action) -> Step:
        pipe = node.pipe
        value = self.expressions.pipeline(pipe)
        if pipe.variables:

            def declare(run: Run, dot: Any) -> int:
                value(run, dot)
                return 0

            return declare
        if not self.html:
            return _print(value, show, self.expressions.place(node.pipe))
        if self._ends_in_html(pipe) and self.context.state == "text":
            # The author escapes already; doing it again would show the entities.
            return _print(value, _unescaped, self.expressions.place(node.pipe))
        place = html_context.before_action(self.context)
        self.context = html_context.after_action(place)
        return _print(value, html_context.escaper(place), self.expressions.place(node.pipe))

    def _ends_in_html(self, pipe: nodes.Pipe) -> bool:
        head = pipe.commands[-1].args[0]
        return isinstance(head, nodes.Identifier) and head.name == "html"

    # -- control -----------------------------------------------------------------------------------------------------

    def _branch(self, node: nodes.Branch) -> Step:
        value = self.expressions.pipeline(node.pipe)
        start = self.context
        body = self.sequence(node.body)
        after_body, self.context = self.context, start
        orelse = self.sequence(node.orelse or ())
        self._join(node, after_body, self.context)
        if node.keyword == "with":

            def choose_with(run: Run, dot: Any) -> int:
                found = value(run, dot)
                return body(run, found) if truth(found) else orelse(run, dot)

            return choose_with

        def choose(run: Run, dot: Any) -> int:
            return body(run, dot) if truth(value(run, dot)) else orelse(run, dot)

        return choose

    def _join(self, node: nodes.Branch, first: Context, second: Context) -> None:
        joined = html_context.join(first, second)
        if joined is None:
            shown = f"{first.state}, {second.state}"
            raise self._syntax(node, f"{{{{{node.keyword}}}}} branches end in different contexts: {shown}")
        self.context = joined

    def _range(self, node: nodes.Branch) -> Step:
        value = self.expressions.commands(node.pipe)
        start = self.context
        body = self.sequence(node.body)
        if html_context.join(start, self.context) is None:
            shown = f"{start.state}, {self.context.state}"
            raise self._syntax(node, f"on range loop re-entry: branches end in different contexts: {shown}")
        after_body, self.context = self.context, start
        orelse = self.sequence(node.orelse or ())
        self._join(node, after_body, self.context)
        place = self.expressions.place(node.pipe.commands[-1].args[-1])
        slots = [variable.slot for variable in node.pipe.variables]
        cost = _weight(node.body)

        def loop(run: Run, dot: Any) -> int:
            found = value(run, dot)
            if isinstance(found, dict):
                run.steps -= len(found) // 4  # the keys are sorted, even if the loop ends at once
            pairs = _pairs(found, place, len(slots))
            turned = False
            for key, item in pairs:
                turned = True
                run.steps -= cost
                if run.steps < 0:
                    raise place.fault("template does too much work", Reason.LIMIT)
                _assign(run, slots, key, item)
                if body(run, item) == BREAK:
                    break
            return 0 if turned else orelse(run, dot)

        return loop

    def _call(self, node: nodes.Call) -> Step:
        place = self.expressions.place(node)
        argument: Expression = self.expressions.pipeline(node.pipe) if node.pipe else _no_value
        found = self.compiler.named(node.name, self.context)
        if found is None:

            def missing(run: Run, dot: Any) -> int:
                raise place.fault(f'template "{node.name}" not defined')

            return missing
        body, self.context = found
        cost = _weight(self.compiler.unit.definitions[node.name].body)

        def call(run: Run, dot: Any) -> int:
            value = argument(run, dot)
            run.calls -= 1
            run.steps -= cost
            if run.calls < 0 or run.steps < 0:
                raise place.fault("templates call each other too deeply or too often", Reason.LIMIT)
            outer = run.vars
            run.vars = [NO_VALUE] * body.slots
            run.vars[0] = value
            body.step(run, value)
            run.vars = outer
            run.calls += 1
            return 0

        return call


def _nothing(run: Run, dot: Any) -> int:
    return 0


def _no_value(run: Run, dot: Any) -> Any:
    return None


def _unescaped(value: Any) -> str:
    return "" if value is None else sprint(value)


def _too_long(place: Place) -> TemplateError:
    return place.fault("output is too long", Reason.LIMIT)


def _weight(body: Sequence[nodes.Node]) -> int:
    """Nodes executed directly by a body (inner loops pay for themselves)."""
    total = 1
    for node in body:
        total += 1
        if isinstance(node, nodes.Branch):
            total += _weight(node.body) + _weight(node.orelse or ())
    return total


def _chain(steps: list[Step]) -> Step:
    if not steps:
        return _nothing
    if len(steps) == 1:
        return steps[0]
    frozen = tuple(steps)

    def sequence(run: Run, dot: Any) -> int:
        for step in frozen:
            signal = step(run, dot)
            if signal:
                return signal
        return 0

    return sequence


def _print(value: Expression, text_of: Callable[[Any], str], place: Place) -> Step:
    def emit(run: Run, dot: Any) -> int:
        found = value(run, dot)
        try:
            text = text_of(found)
        except Exception as error:
            raise place.failed(error) from error
        run.room -= len(text)
        if run.room < 0:
            raise _too_long(place)
        run.out.append(text)
        return 0

    return emit


def _pairs(value: Any, place: Place, variables: int) -> Iterator[tuple[Any, Any]]:
    """What a ``range`` goes over."""
    if isinstance(value, list | tuple):
        return enumerate(value)
    if isinstance(value, dict):
        return iter([(key, value[key]) for key in sorted_keys(value)])
    if value is None or value is NO_VALUE:
        return iter(())
    if isinstance(value, int) and not isinstance(value, bool):
        if variables > 1:
            raise place.fault(f"can't use {value} to iterate over more than one variable")
        return ((number, number) for number in range(value))
    raise place.fault(f"range can't iterate over {show(value)[:100]}")


def _assign(run: Run, slots: list[int], key: Any, item: Any) -> None:
    if not slots:
        return
    if len(slots) == 1:
        run.vars[slots[0]] = item
    else:
        run.vars[slots[0]] = key
        run.vars[slots[1]] = item


class Template:
    """A compiled template; safe to render from several threads at once."""

    def __init__(
        self, unit: nodes.Unit, body: Body, limits: Limits, prepare: Sequence[Expression], needs: frozenset[str]
    ) -> None:
        self.name = unit.name
        self._source = unit.source
        self._body = body
        self._limits = limits
        self._prepare = prepare
        self._needs = needs

    def render(self, data: Any, extra: Mapping[str, Callable[..., Any]] | None = None) -> str:
        """The text for ``data`` (dot and ``$``); ``extra`` brings the functions announced when compiling.

        Raises :class:`TemplateError`, and nothing else, for whatever goes wrong.
        """
        missing = self._needs.difference(extra or ())
        if missing:
            raise TemplateError(self.name, 1, 0, f"no function given for {', '.join(sorted(missing))}")
        run = Run(self._limits, extra or {})
        run.vars = [NO_VALUE] * self._body.slots
        run.vars[0] = data
        try:
            for slot, value in enumerate(self._prepare, 1):
                run.vars[slot] = value(run, data)
            self._body.step(run, data)
        except RecursionError:
            raise TemplateError(self.name, 1, 0, "nested too deeply", Reason.LIMIT) from None
        return "".join(run.out)
