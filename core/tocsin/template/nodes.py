"""The syntax tree of a template. ``pos`` is the character offset in the source; ``source()`` gives Go's text of a node."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(slots=True)
class Node:
    """Base of all nodes."""

    pos: int

    def source(self) -> str:
        """The node as template text, for error messages."""
        raise NotImplementedError


@dataclass(slots=True)
class Text(Node):
    text: str

    def source(self) -> str:
        return self.text


@dataclass(slots=True)
class Dot(Node):
    def source(self) -> str:
        return "."


@dataclass(slots=True)
class Nil(Node):
    def source(self) -> str:
        return "nil"


@dataclass(slots=True)
class Literal(Node):
    """A boolean, number, character or string constant with its spelling."""

    value: bool | int | float | str
    spelling: str

    def source(self) -> str:
        return self.spelling


@dataclass(slots=True)
class Identifier(Node):
    """A function name."""

    name: str

    def source(self) -> str:
        return self.name


@dataclass(slots=True)
class Field(Node):
    """``.A.B``: a path from dot."""

    names: tuple[str, ...]

    def source(self) -> str:
        return "." + ".".join(self.names)


@dataclass(slots=True)
class Variable(Node):
    """``$x.A.B``: a path from a variable; ``slot`` is its place in the frame."""

    name: str
    slot: int
    names: tuple[str, ...] = ()

    def source(self) -> str:
        return ".".join((self.name, *self.names))


@dataclass(slots=True)
class Chain(Node):
    """``(pipeline).A.B`` or ``function.A.B``."""

    node: Node
    names: tuple[str, ...]

    def source(self) -> str:
        inner = self.node.source()
        head = f"({inner})" if isinstance(self.node, Pipe) else inner
        return ".".join((head, *self.names))


@dataclass(slots=True)
class Command(Node):
    """Operand followed by arguments."""

    args: list[Node]

    def source(self) -> str:
        return " ".join(f"({a.source()})" if isinstance(a, Pipe) else a.source() for a in self.args)


@dataclass(slots=True)
class Pipe(Node):
    """Commands joined by ``|``, with the variables they declare or assign."""

    commands: list[Command]
    variables: list[Variable] = field(default_factory=list)
    assign: bool = False

    def source(self) -> str:
        text = " | ".join(command.source() for command in self.commands)
        if not self.variables:
            return text
        names = ", ".join(variable.name for variable in self.variables)
        return f"{names} {'=' if self.assign else ':='} {text}"


@dataclass(slots=True)
class Action(Node):
    """``{{pipeline}}``."""

    pipe: Pipe

    def source(self) -> str:
        return f"{{{{{self.pipe.source()}}}}}"


@dataclass(slots=True)
class Branch(Node):
    """``if``, ``with`` or ``range``; ``orelse`` is ``None`` without ``{{else}}``."""

    keyword: str
    pipe: Pipe
    body: Sequence[Node]
    orelse: Sequence[Node] | None

    def source(self) -> str:
        return f"{{{{{self.keyword} {self.pipe.source()}}}}}"


@dataclass(slots=True)
class Jump(Node):
    """``break`` or ``continue``."""

    keyword: str

    def source(self) -> str:
        return f"{{{{{self.keyword}}}}}"


@dataclass(slots=True)
class Call(Node):
    """``{{template "name" pipeline}}``."""

    name: str
    quoted: str
    pipe: Pipe | None

    def source(self) -> str:
        argument = f" {self.pipe.source()}" if self.pipe else ""
        return f"{{{{template {self.quoted}{argument}}}}}"


@dataclass(slots=True)
class Definition:
    """One template body: its nodes and how many variables a frame holds (slot 0 is ``$``)."""

    name: str
    body: Sequence[Node]
    slots: int


@dataclass(slots=True)
class Unit:
    """A parsed source: the main body under its name, and everything it defines."""

    name: str
    source: str
    main: Definition
    definitions: dict[str, Definition]
