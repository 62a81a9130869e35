"""All small changes of one source file, found in its syntax tree and made in its text."""

from __future__ import annotations

import ast
import copy
import hashlib
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

TYPING = {"TYPE_CHECKING", "typing.TYPE_CHECKING"}
LOGS = {"log", "logger", "_log", "logging", "warnings"}
WORDS = {
    "help",
    "hint",
    "title",
    "description",
    "metavar",
    "short_help",
    "epilog",
}  # arguments that people read
COSMETIC = WORDS | {
    "strict",
    "name",
    "exc_info",
    "frozen",
    "slots",
    "kw_only",
    "eq",
    "repr",
    "encoding",
    "errors",
}
SILENT = {"__repr__", "__str__", "__all__", "__slots__", "__dir__"}
INVERSE: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.FloorDiv: ast.Mult,
    ast.Div: ast.Mult,
}
Span = ast.expr | ast.stmt


@dataclass(frozen=True)
class Mutant:
    file: str  # under src/counsel
    function: str  # its qualified name, "" at a module's top
    line: int
    first: int  # lines of the statement, for the tests that reach it
    last: int
    original: str  # the line or lines, with spaces collapsed
    mutated: str
    occurrence: int  # counts equal changes in the function
    text: str = field(repr=False)  # the whole file, mutated

    def valid(self, text: str) -> bool:
        """Whether Python can parse it, and parses something other than the original."""
        try:
            return ast.dump(ast.parse(self.text)) != ast.dump(ast.parse(text))
        except SyntaxError:
            return False

    def rank(self, seed: str) -> str:
        """The sample has the mutants with the lowest ranks. Changes elsewhere, and moved files, do not alter a rank."""
        key = f"{seed}|{self.function}|{self.original}|{self.mutated}|{self.occurrence}"
        return hashlib.sha256(key.encode()).hexdigest()

    @property
    def key(self) -> tuple[str, str, str, str]:
        return (self.file, self.function, self.original, self.mutated)


@dataclass(frozen=True)
class _Change:
    node: Span
    text: str
    statement: ast.stmt
    function: str


def mutants(path: Path, source: Path) -> list[Mutant]:
    text = path.read_text()
    tree = ast.parse(text)
    counts: dict[tuple[str, str, str], int] = {}
    file = path.relative_to(source).as_posix()
    lines = text.splitlines(keepends=True)
    return [_mutant(lines, change, file, counts) for change in _Finder().find(tree)]


def _mutant(lines: list[str], change: _Change, file: str, counts: dict[tuple[str, str, str], int]) -> Mutant:
    node = change.node
    assert node.end_lineno is not None
    assert node.end_col_offset is not None
    before = _cut(lines[node.lineno - 1], node.col_offset)[0]
    after = _cut(lines[node.end_lineno - 1], node.end_col_offset)[1]
    changed_line = before + change.text + after
    text = "".join([*lines[: node.lineno - 1], changed_line, *lines[node.end_lineno :]])
    original = " ".join("".join(lines[node.lineno - 1 : node.end_lineno]).split())
    key = (change.function, original, " ".join(changed_line.split()))
    counts[key] = occurrence = counts.get(key, -1) + 1
    first, last = _lines(change.statement)
    return Mutant(file, change.function, node.lineno, first, last, original, key[2], occurrence, text)


def _cut(line: str, offset: int) -> tuple[str, str]:
    """The line before and after an offset of a syntax tree, which counts bytes."""
    data = line.encode()
    return data[:offset].decode(), data[offset:].decode()


def _lines(statement: ast.stmt) -> tuple[int, int]:
    """The lines of a simple statement; the header of a compound one."""
    body = getattr(statement, "body", None)
    last = body[0].lineno - 1 if isinstance(body, list) and body else statement.end_lineno
    return statement.lineno, max(statement.lineno, last or 0)


class _Finder:
    """Walks a tree, and knows the statement and the function around each expression."""

    def __init__(self) -> None:
        self._names: list[str] = []
        self._statement: ast.stmt = ast.Pass()
        self._in_function = False
        self._returns_bool = False

    def find(self, tree: ast.Module) -> Iterator[_Change]:
        yield from self._block(tree.body)

    def _change(self, node: Span, new: ast.AST | str) -> _Change:
        text = new if isinstance(new, str) else ast.unparse(ast.fix_missing_locations(new))
        return _Change(node, text, self._statement, ".".join(self._names))

    def _block(self, body: Iterable[ast.stmt]) -> Iterator[_Change]:
        for statement in body:
            outer, self._statement = self._statement, statement
            yield from self._visit_statement(statement)
            self._statement = outer

    def _visit_statement(self, node: ast.stmt) -> Iterator[_Change]:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                yield from self._function(node)
            case ast.ClassDef(name=name, body=body):
                if any(ast.unparse(base).partition("[")[0] == "Protocol" for base in node.bases):
                    return  # it never runs: implementations have their own defaults
                self._names.append(name)
                yield from self._block(body)
                self._names.pop()
            case ast.If():
                yield from self._branches(node)
            case ast.Assign() | ast.AnnAssign() | ast.AugAssign():
                yield from self._assignment(node)
            case ast.Expr(value=value):
                yield from self._call_statement(node, value)
            case ast.Return():
                yield from self._return(node)
            case ast.Raise():
                yield self._change(node, "pass")
                yield from self._expressions(node, words=False)
            case _:
                yield from self._other(node)

    def _branches(self, node: ast.If) -> Iterator[_Change]:
        if ast.unparse(node.test) in TYPING or "__name__" in ast.unparse(node.test):
            return
        if (runs_here := _platform(node.test)) is not None:
            yield from self._block(node.body if runs_here else node.orelse)
            return
        yield from self._condition(node.test)
        yield from self._block(chain(node.body, node.orelse))

    def _other(self, node: ast.stmt) -> Iterator[_Change]:
        """`for`, `with`, `try`, `match` and other statements: their expressions, then their blocks."""
        if isinstance(node, ast.Continue | ast.Break | ast.Delete):
            yield self._change(node, "pass")
        if isinstance(node, ast.Assert | ast.Delete):
            return
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr):
                yield from self._expression(child)
            elif isinstance(child, ast.withitem):
                yield from self._expression(child.context_expr)
            elif isinstance(child, ast.stmt):
                yield from self._block([child])
            elif isinstance(child, ast.ExceptHandler):
                yield from self._block(child.body)
            elif isinstance(child, ast.match_case):
                if child.guard:
                    yield from self._condition(child.guard)
                yield from self._block(child.body)

    def _function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[_Change]:
        if node.name in SILENT:
            return
        state = self._in_function, self._returns_bool
        self._in_function, self._returns_bool = (
            True,
            node.returns is not None and ast.unparse(node.returns) == "bool",
        )
        self._names.append(node.name)
        outer, self._statement = self._statement, _first_step(node)  # defaults count as the first statement
        for default in chain(node.args.defaults, filter(None, node.args.kw_defaults)):
            yield from self._expression(default)
        self._statement = outer
        yield from self._block(node.body)
        self._names.pop()
        self._in_function, self._returns_bool = state

    def _assignment(self, node: ast.Assign | ast.AnnAssign | ast.AugAssign) -> Iterator[_Change]:
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        if any(isinstance(target, ast.Name) and target.id in SILENT for target in targets):
            return
        is_stored = isinstance(targets[0], ast.Attribute | ast.Subscript) and node.value is not None
        if isinstance(node, ast.AugAssign) or (self._in_function and is_stored):
            yield self._change(node, "pass")
        if node.value is not None:
            yield from self._expression(node.value)

    def _call_statement(self, node: ast.Expr, value: ast.expr) -> Iterator[_Change]:
        call = value.value if isinstance(value, ast.Await) else value
        if not isinstance(call, ast.Call) or _is_log(call):
            if isinstance(value, ast.Yield) and value.value is not None:
                yield from self._expression(value.value)
            return
        if self._in_function:
            yield self._change(node, "pass")
        yield from self._expression(value)

    def _return(self, node: ast.Return) -> Iterator[_Change]:
        if node.value is None or (isinstance(node.value, ast.Constant) and node.value.value is None):
            return
        simple = isinstance(node.value, ast.Constant)
        if self._returns_bool and not simple and not isinstance(node.value, ast.Compare):
            yield self._change(node, f"return not ({ast.unparse(node.value)})")
        elif not self._returns_bool:
            yield self._change(node, "return None")
        if isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield from self._string(node.value)
        yield from self._expression(node.value)

    def _condition(self, test: ast.expr) -> Iterator[_Change]:
        if not isinstance(test, ast.Compare | ast.BoolOp) and not _is_not(test):
            yield self._change(test, f"not ({ast.unparse(test)})")
        yield from self._expression(test)

    def _expressions(self, node: ast.AST, *, words: bool = True) -> Iterator[_Change]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.keyword):
                if child.arg not in COSMETIC:
                    yield from self._expression(child.value, words=words)
            elif isinstance(child, ast.comprehension):
                yield from self._expression(child.iter)
                for test in child.ifs:
                    yield from self._condition(test)
            elif isinstance(child, ast.expr):
                yield from self._expression(child, words=words)

    def _expression(self, node: ast.expr, *, words: bool = True) -> Iterator[_Change]:
        match node:
            case ast.Compare():
                yield from self._compare(node, words=words)
            case ast.BoolOp():
                opposite = ast.Or() if isinstance(node.op, ast.And) else ast.And()
                yield self._change(node, f"({ast.unparse(ast.BoolOp(opposite, node.values))})")
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                yield self._change(node, f"bool({ast.unparse(operand)})")
            case ast.BinOp():
                yield from self._arithmetic(node)
            case ast.IfExp(test=test):
                yield from self._condition(test)
                yield from self._expression(node.body, words=words)
                yield from self._expression(node.orelse, words=words)
                return
            case ast.Constant():
                yield from self._constant(node)
            case ast.Subscript(slice=ast.Constant(value=str()) as key) if self._in_function:
                yield from self._string(key)
            case ast.JoinedStr():
                return
            case ast.Call() if _is_log(node):
                return
        yield from self._expressions(node, words=words)

    def _compare(self, node: ast.Compare, *, words: bool) -> Iterator[_Change]:
        if len(node.ops) == 1:
            for inverse in INVERSE[type(node.ops[0])]:
                copy_ = copy.copy(node)
                copy_.ops = [inverse()]
                yield self._change(node, copy_)
        for operand in (node.left, *node.comparators):
            if words and isinstance(operand, ast.Constant) and isinstance(operand.value, str):
                yield from self._string(operand)

    def _arithmetic(self, node: ast.BinOp) -> Iterator[_Change]:
        inverse = ARITHMETIC.get(type(node.op))
        if inverse is None or any(_is_text(side) for side in (node.left, node.right)):
            return
        copy_ = copy.copy(node)
        copy_.op = inverse()
        yield self._change(node, copy_)

    def _constant(self, node: ast.Constant) -> Iterator[_Change]:
        if isinstance(node.value, bool):
            yield self._change(node, str(not node.value))
        elif isinstance(node.value, int):
            yield self._change(node, "1" if node.value == 0 else "0")

    def _string(self, node: ast.Constant) -> Iterator[_Change]:
        yield self._change(node, '""' if node.value else '"mutated"')


def _first_step(node: ast.FunctionDef | ast.AsyncFunctionDef) -> ast.stmt:
    return node.body[1] if ast.get_docstring(node) is not None and len(node.body) > 1 else node.body[0]


def _platform(test: ast.expr) -> bool | None:
    """For a condition on the operating system, whether it holds here; None for other conditions."""
    match test:
        case ast.Compare(ops=[ast.Eq() | ast.NotEq()], comparators=[ast.Constant(value=str(name))]):
            if ast.unparse(test.left) == "sys.platform":
                return (sys.platform == name) == isinstance(test.ops[0], ast.Eq)
    return None


def _is_log(call: ast.Call) -> bool:
    function = call.func
    return (
        isinstance(function, ast.Attribute)
        and isinstance(function.value, ast.Name)
        and function.value.id in LOGS
    )


def _is_not(node: ast.expr) -> bool:
    return isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not)


def _is_text(node: ast.expr) -> bool:
    if isinstance(node, ast.BinOp):
        return _is_text(node.left) or _is_text(node.right)
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))
