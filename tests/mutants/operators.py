"""What is changed in a module: Cosmic Ray's operators, and four that leave out.

Of Cosmic Ray's, those that turn a decision round, move it by one, or swap an operation
for its opposite; all replacements of an operator by any other would be ten times as
many, and are caught where one is. Left out are statements, named arguments and entries
of dictionaries: a forgotten fsync, a guard, a field of a snapshot; and exceptions are
not caught.
"""

import ast
import difflib
import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import cosmic_ray.plugins
import parso
from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import MutationVisitor
from cosmic_ray.operators.operator import Operator

_COMPARISONS = (
    "Eq_NotEq", "Eq_GtE", "Eq_LtE", "NotEq_Eq", "Lt_LtE", "Lt_GtE", "LtE_Lt", "LtE_Gt",
    "Gt_GtE", "Gt_LtE", "GtE_Gt", "GtE_Lt", "Is_IsNot", "IsNot_Is",
)  # fmt: skip
_ARITHMETIC = (
    "Add_Sub", "Sub_Add", "Mul_Div", "Div_Mul", "FloorDiv_Mul", "Mod_Mul", "Pow_Mul",
    "LShift_RShift", "RShift_LShift", "BitOr_BitAnd", "BitAnd_BitOr", "BitXor_BitAnd",
)  # fmt: skip
_OTHERS = (
    "ReplaceUnaryOperator_Delete_USub", "ReplaceUnaryOperator_Delete_Not", "AddNot",
    "ReplaceTrueWithFalse", "ReplaceFalseWithTrue", "ReplaceAndWithOr",
    "ReplaceOrWithAnd", "ReplaceBreakWithContinue", "ReplaceContinueWithBreak",
    "NumberReplacer", "RemoveDecorator", "ZeroIterationForLoop",
)  # fmt: skip


class _LeaveOut(Operator):
    """Replaces what :meth:`found` finds."""

    @staticmethod
    def found(node: Any) -> bool:
        raise NotImplementedError

    @staticmethod
    def left(node: Any) -> Any:
        raise NotImplementedError

    def mutation_positions(self, node: Any) -> Iterator[Any]:
        """Where it can be applied."""
        if self.found(node):
            yield node.start_pos, node.end_pos

    def mutate(self, node: Any, index: int) -> Any:
        """The tree without it."""
        return self.left(node)

    @classmethod
    def examples(cls) -> Iterable[Any]:
        """None beyond those of the tests."""
        return ()


class LeaveOutStatement(_LeaveOut):
    """A call, a raise, a deletion or a change of what outlives the function."""

    @staticmethod
    def found(node: Any) -> bool:
        if node.parent is None or node.parent.type != "simple_stmt":
            return False
        if node.type in ("atom_expr", "raise_stmt", "del_stmt"):
            return True
        return node.type == "expr_stmt" and (
            node.children[0].type == "atom_expr"  # self.x = ..., x[i] = ...
            or (
                node.children[1].type == "operator"
                and node.children[1].value not in ("=", ":")
            )  # x += ...
        )

    @staticmethod
    def left(node: Any) -> Any:
        return parso.parse(node.get_first_leaf().prefix + "pass")


class ReturnNothing(_LeaveOut):
    """A value is not returned."""

    @staticmethod
    def found(node: Any) -> bool:
        return node.type == "return_stmt" and node.children[
            1
        ].get_code().strip() not in (
            "None",
            "False",
        )

    @staticmethod
    def left(node: Any) -> Any:
        return parso.parse(node.get_first_leaf().prefix + "return None")


class CatchNothing(_LeaveOut):
    """An exception is not caught."""

    @staticmethod
    def found(node: Any) -> bool:
        return bool(node.type == "except_clause")

    @staticmethod
    def left(node: Any) -> Any:
        rest = "".join(child.get_code() for child in node.children[2:])
        return parso.parse(f"{node.get_first_leaf().prefix}except (){rest}")


class LeaveOutArgument(Operator):
    """A named argument, or an entry of a dictionary."""

    def _places(self, node: Any) -> list[tuple[int, int]]:
        """From which child to before which one."""
        children = getattr(node, "children", [])
        if node.type == "arglist":
            return [
                (place, place + 2)
                for place, child in enumerate(children)
                if child.type == "argument" and child.children[1] == "="
            ]
        if node.type == "dictorsetmaker" and len(children) > 2 and children[1] == ":":
            return [
                (place - 1, place + 3)
                for place, child in enumerate(children)
                if child == ":"
            ]
        return []

    def mutation_positions(self, node: Any) -> Iterator[Any]:
        """Where it can be applied."""
        children = list(getattr(node, "children", []))  # mutate() changes them
        for first, _ in self._places(node):
            yield children[first].start_pos, children[first].end_pos

    def mutate(self, node: Any, index: int) -> Any:
        """The tree without it."""
        first, end = self._places(node)[index]
        node.children = node.children[:first] + node.children[end:]
        return node

    @classmethod
    def examples(cls) -> Iterable[Any]:
        """None beyond those of the tests."""
        return ()


@dataclass(frozen=True)
class Mutant:
    """A module with one mistake in it."""

    path: str
    operator: str
    line: int  # the first that differs, from 1
    function: str  # the qualified name of what it is in
    was: str
    becomes: str
    text: str  # the whole module

    @property
    def key(self) -> str:
        """What names it for as long as the module stays as it is."""
        return hashlib.sha256(f"{self.path}\n{self.text}".encode()).hexdigest()[:16]


def mutants(path: str, source: str) -> list[Mutant]:
    """All mutants of a module that change more than types, texts and guards."""
    right, found, seen = _essence(source), [], set()
    for name, operator in _operators():
        for text in _applied(source, operator):
            try:
                essence = _essence(text)
            except SyntaxError:
                continue
            if essence != right and essence not in seen:
                seen.add(essence)
                found.append(_described(path, name, source, text))
    return sorted(found, key=lambda mutant: (mutant.line, mutant.becomes))


def _operators() -> Iterator[tuple[str, Operator]]:
    names = [f"ReplaceComparisonOperator_{name}" for name in _COMPARISONS]
    names += [f"ReplaceBinaryOperator_{name}" for name in _ARITHMETIC]
    for name in [*names, *_OTHERS]:
        yield name, cosmic_ray.plugins.get_operator(f"core/{name}")()
    for ours in (LeaveOutStatement, ReturnNothing, CatchNothing, LeaveOutArgument):
        yield ours.__name__, ours()


def _applied(source: str, operator: Operator) -> Iterator[str]:
    count = sum(
        len(list(operator.mutation_positions(node)))
        for node in ast_nodes(get_ast(source))
    )
    for occurrence in range(count):
        text = MutationVisitor.mutate_code(source, operator, occurrence)
        if text is not None:
            yield text


def _described(path: str, operator: str, source: str, text: str) -> Mutant:
    old, new = source.splitlines(), text.splitlines()
    changes = [
        change
        for change in difflib.SequenceMatcher(
            None, old, new, autojunk=False
        ).get_opcodes()
        if change[0] != "equal"
    ]
    _, first, end, start, stop = changes[0]
    while first < end - 1 and not old[first].strip():
        first += 1
    return Mutant(
        path,
        operator,
        first + 1,
        _scope(source, first + 1),
        " ".join(line.strip() for line in old[first:end]),
        " ".join(line.strip() for line in new[start:stop]),
        text,
    )


def _scope(source: str, line: int) -> str:
    names: list[str] = []
    node: Any = ast.parse(source)
    while node is not None:
        node = next(
            (
                child
                for child in ast.iter_child_nodes(node)
                if isinstance(child, ast.FunctionDef | ast.ClassDef)
                and child.lineno <= line <= (child.end_lineno or 0)
            ),
            None,
        )
        if node is not None:
            names.append(node.name)
    return ".".join(names)


# --------------------------------------------------- what counts as another program


class _Bare(ast.NodeTransformer):
    """Takes out what no test should look at."""

    def visit_FunctionDef(self, node: ast.FunctionDef) -> Any:
        """How arguments may be passed, and of which types they are, is mypy's."""
        node.returns, given = None, node.args
        given.args = [*given.posonlyargs, *given.args, *given.kwonlyargs]
        given.defaults += [value for value in given.kw_defaults if value is not None]
        given.posonlyargs, given.kwonlyargs, given.kw_defaults = [], [], []
        for argument in given.args:
            argument.annotation = None
        return self._without_docstring(node)

    def visit_ClassDef(self, node: ast.ClassDef) -> Any:
        return self._without_docstring(node)

    def visit_Module(self, node: ast.Module) -> Any:
        return self._without_docstring(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> Any:
        node.annotation = ast.Constant(None)
        return self.generic_visit(node)

    def visit_Raise(self, node: ast.Raise) -> Any:
        """The kind of an error counts, its words do not; and it has its cause."""
        if isinstance(node.exc, ast.Call):
            node.exc = node.exc.func
        node.cause = None
        return node

    def visit_Assert(self, node: ast.Assert) -> Any:
        """It cannot happen."""
        return ast.Pass()

    def visit_Call(self, node: ast.Call) -> Any:
        """A dataclass that is not frozen or slotted is no other program."""
        if isinstance(node.func, ast.Name) and node.func.id in ("dataclass", "TypeVar"):
            form = "frozen", "slots", "kw_only"
            node.keywords = [word for word in node.keywords if word.arg not in form]
        return self.generic_visit(node)

    def _without_docstring(self, node: Any) -> Any:
        node.body = [
            part
            for part in node.body
            if not (isinstance(part, ast.Expr) and isinstance(part.value, ast.Constant))
        ] or [ast.Pass()]
        return self.generic_visit(node)


def _essence(source: str) -> str:
    return ast.dump(_Bare().visit(ast.parse(source)))
