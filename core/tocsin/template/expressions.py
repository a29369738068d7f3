"""Operands, commands and pipelines to closures."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from . import nodes
from .runtime import Expression, Place, Run, invoke, member
from .values import Function, check_argument, truth


class Expressions:
    """Compiles the pipelines of one definition.

    ``functions`` are known now; names in ``extra`` are looked up in each rendering.
    """

    def __init__(self, unit: nodes.Unit, definition: str, functions: Mapping[str, Function]) -> None:
        self.unit = unit
        self.definition = definition
        self.functions = functions

    def place(self, node: nodes.Node) -> Place:
        """The spot of ``node``, for errors."""
        return Place(self.unit.name, self.unit.source, self.definition, node)

    def pipeline(self, pipe: nodes.Pipe) -> Expression:
        """The value of a pipeline; declared variables are set on the way (not for ``range``, which sets its own)."""
        value = self.commands(pipe)
        if not pipe.variables:
            return value
        slot = pipe.variables[0].slot

        def store(run: Run, dot: Any) -> Any:
            result = value(run, dot)
            run.vars[slot] = result
            return result

        return store

    def commands(self, pipe: nodes.Pipe) -> Expression:
        """The value of a pipeline's commands."""
        value: Expression | None = None
        for command in pipe.commands:
            value = self._command(command, value)
        if value is None:
            raise self.place(pipe).fault("missing value for command")
        return value

    def _command(self, command: nodes.Command, final: Expression | None) -> Expression:
        head, *rest = command.args
        if isinstance(head, nodes.Identifier):
            return self._function(head, command, rest, final)
        if isinstance(head, nodes.Field | nodes.Variable | nodes.Chain) and (rest or final is not None):
            return self._method(head, rest, final)
        if rest or final is not None:
            place = self.place(head)
            return _raiser(place, f"can't give argument to non-function {head.source()}")
        if isinstance(head, nodes.Nil):
            return _raiser(self.place(head), "nil is not a command")
        return self.operand(head)

    # -- operands ----------------------------------------------------------------------------------------------------

    def operand(self, node: nodes.Node) -> Expression:
        """The value of an argument."""
        if isinstance(node, nodes.Literal):
            constant = node.value
            return lambda run, dot: constant
        if isinstance(node, nodes.Dot):
            return lambda run, dot: dot
        if isinstance(node, nodes.Nil):
            return lambda run, dot: None
        if isinstance(node, nodes.Field):
            return self._path(node, lambda run, dot: dot, node.names)
        if isinstance(node, nodes.Variable):
            slot = node.slot
            return self._path(node, lambda run, dot: run.vars[slot], node.names)
        if isinstance(node, nodes.Chain):
            return self._path(node, self.operand(node.node), node.names)
        if isinstance(node, nodes.Identifier):
            return self._function(node, nodes.Command(node.pos, [node]), [], None)
        if isinstance(node, nodes.Pipe):
            return self.pipeline(node)
        raise self.place(node).fault(f"can't evaluate {node.source()}")

    def _path(self, node: nodes.Node, base: Expression, names: tuple[str, ...]) -> Expression:
        if not names:
            return base
        place = self.place(node.node if isinstance(node, nodes.Chain) else node)
        if len(names) == 1:
            name = names[0]
            return lambda run, dot: member(base(run, dot), name, place)

        def walk(run: Run, dot: Any) -> Any:
            value = base(run, dot)
            for name in names:
                value = member(value, name, place)
            return value

        return walk

    # -- calls -------------------------------------------------------------------------------------------------------

    def _method(
        self, head: nodes.Field | nodes.Variable | nodes.Chain, rest: list[nodes.Node], final: Expression | None
    ) -> Expression:
        place = self.place(head)
        if not head.names:
            return _raiser(place, f"can't give argument to non-function {head.source()}")
        owner, name = head.names[:-1], head.names[-1]
        base: Expression
        if isinstance(head, nodes.Field):
            base = self._path(head, lambda run, dot: dot, owner)
        elif isinstance(head, nodes.Variable):
            slot = head.slot
            base = self._path(head, lambda run, dot: run.vars[slot], owner)
        else:
            base = self._path(head, self.operand(head.node), owner)
        args = self._arguments(rest, final)

        def call(run: Run, dot: Any) -> Any:
            values = [arg(run, dot) for arg in args]
            run.charge(values)
            return invoke(base(run, dot), name, tuple(values), place)

        return call

    def _arguments(self, rest: list[nodes.Node], final: Expression | None) -> list[Expression]:
        args = [self.operand(node) for node in rest]
        if final is not None:
            args.append(final)
        return args

    def _function(
        self, head: nodes.Identifier, command: nodes.Command, rest: list[nodes.Node], final: Expression | None
    ) -> Expression:
        function = self.functions.get(head.name)
        args = self._arguments(rest, final)
        if function is None:
            return self._extra(head.name, args, self.place(command))
        complaint = _count_complaint(function, len(args))
        if complaint:
            return _raiser(self.place(head), complaint, final)
        if function.name in ("and", "or"):
            return _short_circuit(function.name == "or", args)
        places = [self.place(node) for node in rest]
        if final is not None:
            places.append(self.place(command))
        return _call(function, args, places, self.place(command))

    def _extra(self, name: str, args: list[Expression], place: Place) -> Expression:
        """A function that each rendering brings along."""

        def call(run: Run, dot: Any) -> Any:
            values = [check_argument("any", arg(run, dot)) for arg in args]
            try:
                run.charge(values)
                return run.extra[name](*values)
            except Exception as error:
                raise place.failed(error, f"error calling {name}: ") from error

        return call


def _raiser(place: Place, message: str, before: Expression | None = None) -> Expression:
    """Code that is always wrong, but only when it is reached; what is piped into it is evaluated first."""

    def fail(run: Run, dot: Any) -> Any:
        if before is not None:
            before(run, dot)
        raise place.fault(message)

    return fail


def _count_complaint(function: Function, given: int) -> str:
    least = function.minimum()
    most = None if function.rest is not None else len(function.params)
    if given >= least and (most is None or given <= most):
        return ""
    wanted = f"{least}" if most == least else f"at least {least}"
    if most is not None and given > most:
        wanted = f"{most}" if most == least else f"at most {most}"
    return f"wrong number of args for {function.name}: want {wanted} got {given}"


def _type_complaint(node: nodes.Node, message: str) -> str:
    """Go words it differently for constants."""
    if isinstance(node, nodes.Literal):
        expected = message.partition("expected ")[2].partition(";")[0]
        return f"expected {expected}; found {node.spelling}"
    return message


def _short_circuit(stop_on: bool, args: list[Expression]) -> Expression:
    *head, last = args

    def decide(run: Run, dot: Any) -> Any:
        for arg in head:
            value = arg(run, dot)
            if truth(value) is stop_on:
                return value
        return last(run, dot)

    return decide


_TEXT_FITS = frozenset(("string", "any", "number"))
"""Kinds that take text as it is: the common case, checked first."""


def _call(function: Function, args: list[Expression], places: list[Place], place: Place) -> Expression:
    kinds = [*function.params, *[function.rest or "any"] * len(args)][: len(args)]
    slots = list(zip(args, kinds, places, strict=True))
    target = function.call
    what = f"error calling {function.name}: "
    cost = function.cost

    def call(run: Run, dot: Any) -> Any:
        values = []
        for arg, kind, spot in slots:
            value = arg(run, dot)
            if value.__class__ is str and kind in _TEXT_FITS:
                values.append(value)
                continue
            try:
                values.append(check_argument(kind, value))
            except TypeError as error:
                raise spot.fault(_type_complaint(spot.node, str(error))) from None
        try:
            run.charge(values, cost)
            result = target(*values)
            if isinstance(result, str) and len(result) > 256:
                run.charge((result,))
        except Exception as error:
            raise place.failed(error, what) from error
        return result

    return call
