"""The lines of a source that hold code."""

import ast
import io
import tokenize


def lines_of_code(source: str) -> list[str]:
    """Returns the lines that hold code: no docstring, comment, blank or import.

    Lines are stripped, and so are the comments at their ends.
    """
    skipped = set[int]()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.stmt) and _is_no_code(node):
            skipped |= set(range(node.lineno, (node.end_lineno or 0) + 1))
    empty = {
        tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT,
        tokenize.ENDMARKER, tokenize.ENCODING,
    }  # fmt: skip
    lines, held = source.splitlines(), set[int]()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        row, column = token.start
        if token.type == tokenize.COMMENT:
            lines[row - 1] = lines[row - 1][:column]
        elif token.type not in empty:
            held |= set(range(row, token.end[0] + 1))
    return [lines[row - 1].strip() for row in sorted(held - skipped)]


def _is_no_code(node: ast.stmt) -> bool:
    """Returns whether a statement is an import, or a string alone as docstrings are."""
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return isinstance(node.value.value, str)
    return isinstance(node, ast.Import | ast.ImportFrom)
