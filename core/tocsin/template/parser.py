"""Tokens to syntax tree, with Go's grammar and Go's complaints."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from . import nodes
from .errors import Reason, TemplateError, locate
from .lexer import Kind, Lexer, Token
from .literals import parse_char, parse_number, unquote
from .show import quote

_MAX_NESTING = 60
_UNCHAINABLE = (nodes.Literal, nodes.Nil, nodes.Dot)


class _Scope:
    """Names visible at one point of a body, and the size its frame needs."""

    def __init__(self, names: Sequence[str] = ()) -> None:
        self.names = ["$", *names]
        self.slots = len(self.names)

    def declare(self, name: str) -> int:
        self.names.append(name)
        self.slots = max(self.slots, len(self.names))
        return len(self.names) - 1

    def find(self, name: str) -> int:
        """The innermost slot of ``name``, or -1."""
        for slot in range(len(self.names) - 1, -1, -1):
            if self.names[slot] == name:
                return slot
        return -1


class Parser:
    """Parses one source.

    ``functions`` are the callable names; ``variables`` are declared before the text, in slots 1, 2, ...
    """

    def __init__(self, name: str, source: str, functions: Collection[str], variables: Sequence[str] = ()) -> None:
        self.name = name
        self.source = source
        self.functions = functions
        self.definitions: dict[str, nodes.Definition] = {}
        self.scope = _Scope(variables)
        self.loops = 0
        self.nesting = 0
        self.index = 0
        self.tokens = Lexer(name, source).run()

    def parse(self) -> nodes.Unit:
        """The whole tree; raises :class:`TemplateError` for the first mistake."""
        body: list[nodes.Node] = []
        while self._peek().kind is not Kind.EOF:
            if self._at_keyword("define"):
                self._define()
                continue
            node = self._item(None)
            if node is not None:
                body.append(node)
        main = nodes.Definition(self.name, body, self.scope.slots)
        return nodes.Unit(self.name, self.source, main, self.definitions)

    # -- tokens ------------------------------------------------------------------------------------------------------

    def _peek(self) -> Token:
        return self.tokens[self.index]

    def _next(self) -> Token:
        token = self.tokens[self.index]
        self.index += token.kind is not Kind.EOF
        return token

    def _skip_space(self) -> Token:
        if self._peek().kind is Kind.SPACE:
            self.index += 1
        return self._peek()

    def _at_keyword(self, *words: str) -> bool:
        """Whether the next action begins with one of these words."""
        if self._peek().kind is not Kind.OPEN:
            return False
        place = self.index + 1
        place += self.tokens[place].kind is Kind.SPACE
        token = self.tokens[place]
        return token.kind is Kind.KEYWORD and token.text in words

    def _expect_close(self, context: str) -> None:
        token = self._skip_space()
        if token.kind is not Kind.CLOSE:
            raise self._unexpected(token, context)
        self.index += 1

    def _unexpected(self, token: Token, context: str) -> TemplateError:
        if token.kind is Kind.EOF:
            return self._error("unexpected EOF", token.pos)
        shown = f"<{token.text}>" if token.kind in (Kind.DOT, Kind.KEYWORD) else quote(token.text)
        return self._error(f"unexpected {shown} in {context}", token.pos)

    def _error(self, message: str, pos: int) -> TemplateError:
        return TemplateError(self.name, locate(self.source, pos)[0], None, message, Reason.SYNTAX)

    def _deeper(self, pos: int) -> None:
        self.nesting += 1
        if self.nesting > _MAX_NESTING:
            line = locate(self.source, pos)[0]
            raise TemplateError(self.name, line, None, f"nested deeper than {_MAX_NESTING} levels", Reason.LIMIT)

    # -- bodies ------------------------------------------------------------------------------------------------------

    def _item(self, owner: str | None) -> nodes.Node | None:
        """Text or one action (``None`` for an action that leaves nothing, such as ``{{define}}``)."""
        token = self._next()
        if token.kind is Kind.TEXT:
            return nodes.Text(token.pos, token.text)
        if token.kind is Kind.EOF:
            raise self._error("unexpected EOF", token.pos)
        word = self._skip_space()
        if word.kind is not Kind.KEYWORD:
            return self._action(word.pos)
        self.index += 1
        if word.text in ("if", "with", "range"):
            return self._branch(word.text, word.pos)
        if word.text in ("break", "continue"):
            return self._jump(word)
        if word.text == "template":
            return self._call(word.pos)
        if word.text == "block":
            return self._block(word.pos)
        if word.text == "define":
            raise self._error("unexpected <define> in command", word.pos)
        self._expect_close(word.text)
        raise self._error(f"unexpected {{{{{word.text}}}}}" + (f" in {owner}" if owner else ""), word.pos)

    def _body(self, owner: str) -> list[nodes.Node]:
        """Items up to ``{{else`` or ``{{end}}``, which is left to the caller."""
        body: list[nodes.Node] = []
        self._deeper(self._peek().pos)
        while not self._at_keyword("else", "end"):
            node = self._item(owner)
            if node is not None:
                body.append(node)
        self.nesting -= 1
        return body

    def _keyword(self) -> Token:
        self._next()
        self._skip_space()
        return self._next()

    def _action(self, pos: int) -> nodes.Node:
        pipe = self._pipeline("command", Kind.CLOSE)
        return nodes.Action(pos, pipe)

    def _branch(self, keyword: str, pos: int) -> nodes.Node:
        names = len(self.scope.names)
        pipe = self._pipeline(keyword, Kind.CLOSE)
        declared = len(self.scope.names)
        self.loops += keyword == "range"
        body = self._body(keyword)
        del self.scope.names[declared:]  # what the body declares ends with it; the pipeline's own names reach {{else}}
        self.loops -= keyword == "range"
        orelse: Sequence[nodes.Node] | None = None
        word = self._keyword()
        if word.text == "else":
            orelse = self._else(keyword)
        else:
            self._expect_close("end")
        del self.scope.names[names:]
        return nodes.Branch(pos, keyword, pipe, body, orelse)

    def _else(self, keyword: str) -> Sequence[nodes.Node]:
        token = self._skip_space()
        if token.kind is Kind.KEYWORD and token.text == keyword and keyword in ("if", "with"):
            # {{else if}} is a branch of its own that ends with the same {{end}}.
            self.index += 1
            self._deeper(token.pos)
            chained = [self._branch(keyword, token.pos)]
            self.nesting -= 1
            return chained
        self._expect_close("else")
        orelse = self._body(keyword)
        word = self._keyword()
        if word.text != "end":
            raise self._error("expected end; found {{else}}", word.pos)
        self._expect_close("end")
        return orelse

    def _jump(self, word: Token) -> nodes.Node:
        token = self._skip_space()
        if token.kind is not Kind.CLOSE:
            raise self._unexpected(token, f"{{{{{word.text}}}}}")
        self.index += 1
        if not self.loops:
            raise self._error(f"{{{{{word.text}}}}} outside {{{{range}}}}", word.pos)
        return nodes.Jump(word.pos, word.text)

    # -- named templates ---------------------------------------------------------------------------------------------

    def _template_name(self, context: str) -> Token:
        token = self._skip_space()
        if token.kind not in (Kind.STRING, Kind.RAW):
            raise self._unexpected(token, context)
        self.index += 1
        return token

    def _call(self, pos: int) -> nodes.Node:
        token = self._template_name("template clause")
        pipe = None
        if self._skip_space().kind is Kind.CLOSE:
            self.index += 1
        else:
            pipe = self._pipeline("template clause", Kind.CLOSE)
        return nodes.Call(token.pos, self._unquote(token), token.text, pipe)

    def _block(self, pos: int) -> nodes.Node:
        token = self._template_name("block clause")
        pipe = self._pipeline("block clause", Kind.CLOSE)
        self._definition(token, "block clause")
        return nodes.Call(token.pos, self._unquote(token), token.text, pipe)

    def _define(self) -> None:
        self._keyword()
        token = self._template_name("define clause")
        self._expect_close("define clause")
        self._definition(token, "define clause")

    def _definition(self, token: Token, context: str) -> None:
        outer, self.scope = self.scope, _Scope()
        loops, self.loops = self.loops, 0
        body = self._body(context)
        word = self._keyword()
        if word.text != "end":
            raise self._error(f"unexpected {{{{else}}}} in {context}", word.pos)
        self._expect_close("end")
        name = self._unquote(token)
        known = self.definitions.get(name)
        if known is not None and not _blank(known.body) and not _blank(body):
            raise self._error(f'template: multiple definition of template "{name}"', token.pos)
        if known is None or _blank(known.body):
            self.definitions[name] = nodes.Definition(name, body, self.scope.slots)
        self.scope, self.loops = outer, loops

    # -- pipelines ---------------------------------------------------------------------------------------------------

    def _pipeline(self, context: str, end: Kind) -> nodes.Pipe:
        """A pipeline with its closing ``}}`` or ``)``."""
        start = self._skip_space()
        variables, assign = self._declarations(context)
        commands: list[nodes.Command] = []
        while True:
            token = self._skip_space()
            if token.kind is end:
                self.index += 1
                break
            commands.append(self._command(context, end))
        if not commands:
            raise self._error(f"missing value for {context}", start.pos)
        for stage, command in enumerate(commands[1:], 2):
            if isinstance(command.args[0], _UNCHAINABLE):
                raise self._error(f"non executable command in pipeline stage {stage}", command.pos)
        if not assign:
            for variable in variables:
                variable.slot = self.scope.declare(variable.name)
        return nodes.Pipe(commands[0].pos, commands, variables, assign)

    def _declarations(self, context: str) -> tuple[list[nodes.Variable], bool]:
        """``$x :=``, ``$x =`` or ``$i, $v :=`` at the start of a pipeline, if it is there."""
        mark = self.index
        found: list[Token] = []
        while self._skip_space().kind is Kind.VARIABLE:
            found.append(self._next())
            token = self._skip_space()
            if token.kind in (Kind.DECLARE, Kind.ASSIGN):
                self.index += 1
                return self._variables(found, token.kind is Kind.ASSIGN, context)
            if token.kind is not Kind.COMMA:
                break
            if context != "range" or len(found) > 1:
                raise self._error(f"too many declarations in {context}", token.pos)
            self.index += 1
        self.index = mark
        return [], False

    def _variables(self, found: list[Token], assign: bool, context: str) -> tuple[list[nodes.Variable], bool]:
        variables = [nodes.Variable(token.pos, token.text, -1) for token in found]
        if assign:
            for variable in variables:
                variable.slot = self._slot(variable.name, variable.pos)
        return variables, assign

    def _command(self, context: str, end: Kind) -> nodes.Command:
        """Operands up to ``|`` (eaten) or the end of the pipeline (left)."""
        pos = self._peek().pos
        args: list[nodes.Node] = []
        while True:
            token = self._skip_space()
            if token.kind is end or token.kind is Kind.PIPE:
                break
            args.append(self._operand(context))
            following = self._peek()
            if following.kind not in (Kind.SPACE, Kind.PIPE, end):
                raise self._unexpected(following, "operand")
        if not args:
            raise self._unexpected(token, context)
        if token.kind is Kind.PIPE:
            self.index += 1
        return nodes.Command(pos, args)

    def _operand(self, context: str) -> nodes.Node:
        token = self._next()
        node = self._term(token)
        if node is None:
            raise self._unexpected(token, context)
        if self._peek().kind is not Kind.FIELD:
            return node
        names = []
        first = self._peek().pos
        while self._peek().kind is Kind.FIELD:
            names.append(self._next().text[1:])
        if isinstance(node, nodes.Field):
            return nodes.Field(first, (*node.names, *names))
        if isinstance(node, nodes.Variable):
            return nodes.Variable(first, node.name, node.slot, tuple(names))
        if isinstance(node, _UNCHAINABLE):
            raise self._error(f"unexpected . after term {quote(node.source())}", first)
        return nodes.Chain(first, node, tuple(names))

    def _term(self, token: Token) -> nodes.Node | None:
        kind, text, pos = token
        if kind is Kind.IDENTIFIER:
            if text not in self.functions:
                raise self._error(f'function "{text}" not defined', pos)
            return nodes.Identifier(pos, text)
        if kind is Kind.VARIABLE:
            return nodes.Variable(pos, text, self._slot(text, pos))
        if kind is Kind.LPAREN:
            self._deeper(pos)
            pipe = self._pipeline("parenthesized pipeline", Kind.RPAREN)
            self.nesting -= 1
            return pipe
        if kind is Kind.FIELD:
            return nodes.Field(pos, (text[1:],))
        simple = {Kind.DOT: nodes.Dot, Kind.NIL: nodes.Nil}.get(kind)
        if simple is not None:
            return simple(pos)
        return self._literal(token)

    def _literal(self, token: Token) -> nodes.Node | None:
        kind, text, pos = token
        value: bool | int | float | str
        if kind is Kind.BOOL:
            value = text == "true"
        elif kind in (Kind.STRING, Kind.RAW):
            value = self._unquote(token)
        elif kind in (Kind.NUMBER, Kind.CHAR):
            try:
                value = parse_number(text) if kind is Kind.NUMBER else parse_char(text)
            except ValueError as error:
                raise self._error(str(error), pos) from None
        else:
            return None
        return nodes.Literal(pos, value, text)

    def _unquote(self, token: Token) -> str:
        try:
            return unquote(token.text)
        except ValueError as error:
            raise self._error(str(error), token.pos) from None

    def _slot(self, name: str, pos: int) -> int:
        slot = self.scope.find(name)
        if slot < 0:
            raise self._error(f'undefined variable "{name}"', pos)
        return slot


def _blank(body: Sequence[nodes.Node]) -> bool:
    return all(isinstance(node, nodes.Text) and not node.text.strip() for node in body)
