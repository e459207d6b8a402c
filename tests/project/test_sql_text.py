"""No text is put together on its way to a database but by `warehouse.sql`, which quotes every value and name."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from tests.conftest import PROJECT_ROOT
from warehouse.sql import Sql, compose, identifier, identifiers, literal, literals, type_name

PACKAGES = ("collectors", "warehouse", "expectations", "dags", "demo")
QUOTING = PROJECT_ROOT / "warehouse" / "sql.py"
MODULES = sorted(path for package in PACKAGES for path in (PROJECT_ROOT / package).rglob("*.py") if path != QUOTING)
#: methods whose first argument is SQL, of connections and of relations
SINKS = frozenset({"execute", "executemany", "sql", "query", "exec_driver_sql", "read_sql", "query_df"})
#: the makers of `warehouse.sql`, whose templates must be constants themselves
COMPOSING = frozenset({"compose", "_moving"})
#: methods of texts that make another one
TEXT_MAKERS = frozenset({"format", "format_map", "join", "replace", "removesuffix", "removeprefix"})


def faults(source: str) -> list[str]:
    """`line: what` of each text that is put together and executed; `Sql` made outside of its module as well."""
    tree = ast.parse(source)
    values = _assigned(tree)
    sinks = SINKS | _functions_that_execute(tree)
    found = []
    for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
        name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
        first = call.args[0] if call.args else next((word.value for word in call.keywords if word.arg in ("query", "sql")), None)
        if name == "Sql":
            found.append(f"{call.lineno}: Sql() is made outside of warehouse/sql.py")
        elif first is not None and name in sinks | COMPOSING:
            made = next(_made(first, values, set()), None)
            if made is not None:
                found.append(f"{call.lineno}: {name}({ast.unparse(made)[:80]})")
    return found


def _made(node: ast.AST, values: dict[str, list[ast.AST]], seen: set[str]) -> Iterator[ast.AST]:
    """The parts of an expression that put text together, names followed to what they were assigned in the module."""
    if isinstance(node, ast.Call):
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if name in COMPOSING:
            return
        if name in TEXT_MAKERS and isinstance(node.func, ast.Attribute):
            yield node
            return
        if isinstance(node.func, ast.Attribute):
            yield from _made(node.func.value, values, seen)
        return
    is_formatted = isinstance(node, ast.JoinedStr) and any(isinstance(part, ast.FormattedValue) for part in node.values)
    if is_formatted or (isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Mod)):
        yield node
    elif isinstance(node, ast.Name):
        if node.id not in seen:
            for value in values.get(node.id, []):
                yield from _made(value, values, seen | {node.id})
    else:
        for child in ast.iter_child_nodes(node):
            yield from _made(child, values, seen)


def _assigned(tree: ast.AST) -> dict[str, list[ast.AST]]:
    values: dict[str, list[ast.AST]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign):
            pairs = [(target, node.value) for target in node.targets]
        elif isinstance(node, ast.AnnAssign | ast.AugAssign) and node.value is not None:
            pairs = [(node.target, node.value)]
            if isinstance(node, ast.AugAssign):
                pairs = [(node.target, ast.BinOp(node.target, node.op, node.value))]
        elif isinstance(node, ast.For | ast.comprehension):
            pairs = [(node.target, node.iter)]
        else:
            continue
        for target, value in pairs:
            for name in (part for part in ast.walk(target) if isinstance(part, ast.Name)):
                values.setdefault(name.id, []).append(value)
    return values


def _functions_that_execute(tree: ast.AST) -> frozenset[str]:
    """Functions of the module that hand a parameter on to be executed: their callers are held to the same."""
    found = set()
    for function in (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)):
        parameters = {argument.arg for argument in (*function.args.args, *function.args.kwonlyargs)}
        for call in (node for node in ast.walk(function) if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
            first = call.args[0] if call.args else None
            if call.func.attr in SINKS and isinstance(first, ast.Name) and first.id in parameters:
                found.add(function.name)
    return frozenset(found)


@pytest.mark.parametrize("module", MODULES, ids=lambda path: str(path.relative_to(PROJECT_ROOT)))
def test_no_text_is_put_together_on_its_way_to_a_database(module: Path) -> None:
    assert faults(module.read_text()) == []


@pytest.mark.parametrize(
    "source",
    [
        "connection.execute(f'drop table {name}')",
        "connection.execute('drop table ' + name)",
        "connection.execute('drop table %s' % name)",
        "connection.execute('drop table {}'.format(name))",
        "connection.execute(' '.join(parts))",
        "connection.execute(TEMPLATE.replace('x', name))",
        "query = f'select {name}'\nconnection.execute(query)",
        "query = 'select '\nquery += name\nconnection.sql(query)",
        "for query in [f'select {name}']:\n    connection.execute(query)",
        "connection.execute(compose(f'select {name} from {{table}}', table=table))",
        "connection.execute(Sql(name))",
        "connection.execute('select 1' if good else f'select {name}')",
        "def rows(query):\n    return connection.execute(query)\nrows(f'select {name}')",
    ],
)
def test_a_text_that_is_put_together_is_found(source: str) -> None:
    assert faults(source)


@pytest.mark.parametrize(
    "source",
    [
        "connection.execute('select ?', [name])",
        "QUERY = 'select 1'\nconnection.execute(QUERY)",
        "connection.execute(compose('from {table}', table=identifier(name)))",
        "query = compose(TEMPLATE, table=identifier(name))\nconnection.execute(query)",
    ],
)
def test_bound_and_quoted_text_passes(source: str) -> None:
    assert faults(source) == []


NASTY = ["x", "it's", "');drop table t;--", 'a"b', "a\nb", "\\", "\u202e", "😀", "%s{}", "$1 ?"]


@pytest.mark.parametrize("text", NASTY)
def test_a_quoted_value_and_a_quoted_name_come_back_as_they_were(text: str) -> None:
    with duckdb.connect() as connection:
        assert connection.execute(compose("select {value}", value=literal(text))).fetchall() == [(text,)]
        name = identifier(text)
        connection.execute(compose("create table {name} as select {value} as {name}", name=name, value=literal(text)))
        found = connection.execute(compose("from {name} where {name} in ({values})", name=name, values=literals(NASTY)))
        assert [column[0] for column in found.description or ()] == [text]
        assert found.fetchall() == [(text,)]


def test_plain_text_is_no_part_of_a_statement() -> None:
    with pytest.raises(TypeError, match="bind it"):
        compose("select {value}", value="1; drop table t")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="NUL"):
        literal("a\0b")
    with pytest.raises(ValueError, match="no type"):
        type_name("varchar; drop table t")
    assert identifiers(["a", "b"]) == Sql('"a", "b"')
    assert [literal(True), literal(None), literal(3)] == ["true", "null", "3"]
