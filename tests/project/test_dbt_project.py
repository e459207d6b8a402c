"""Walk every model, seed and column of the dbt project: the YAML is the contract, and the layers point one way."""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

DBT_PROJECT = Path(__file__).resolve().parents[2] / "dbt_project"
MODELS = DBT_PROJECT / "models"
SEEDS = DBT_PROJECT / "seeds"

#: prefix of a model → prefixes of what it may read; seeds count as `seed`
LAYERS: Mapping[str, frozenset[str]] = {
    "stg": frozenset(),
    "int": frozenset({"stg", "int", "seed", "dim", "fct"}),
    "dim": frozenset({"stg", "int", "seed", "dim", "fct"}),
    "fct": frozenset({"stg", "int", "seed", "dim", "fct"}),
    "mart": frozenset({"int", "seed", "dim", "fct"}),
    "audit": frozenset({"int", "dim", "fct", "mart"}),
}
PUBLISHED = ("dim", "fct", "mart", "audit")
NUMBERS = re.compile(r"(double|float|integer|bigint|smallint|decimal\(\d+, ?\d+\))", re.IGNORECASE)
#: numbers that measure nothing: ids and places in an order
UNMEASURED = re.compile(r"(_id|_index|_order|_position|_rank|_number|^pid|^priority|^signal|^xid)$")
UNITS = frozenset(
    {
        *("us", "ms", "s", "min", "h", "d", "y", "gpu_h"),
        *("currency", "currency/us", "currency/h", "currency/gpu_h", "currency/kWh", "micro-currency"),
        *("currency/token", "currency/Mtoken", "currency/request", "currency/1000request"),
        *("kWh", "J", "J/us", "W", "MHz", "°C", "bytes", "bytes/s", "bytes·min", "bytes·us"),
        *("count", "tokens", "tokens/s", "tokens/gpu_h", "requests/s", "requests/gpu_h", "1/s"),
        *("ratio", "mask", "g", "g/kWh", "mWh", "ug"),
    }
)


@dataclass(frozen=True)
class Model:
    name: str
    path: Path
    sql: str
    declared: Mapping[str, Any]

    @property
    def layer(self) -> str:
        return self.name.split("_")[0]

    @property
    def refs(self) -> set[str]:
        return set(re.findall(r"ref\(\s*'(\w+)'\s*\)", self.sql))

    @property
    def sources(self) -> set[tuple[str, str]]:
        named = set(re.findall(r"source\(\s*'(\w+)'\s*,\s*'(\w+)'\s*\)", self.sql))
        landed = re.findall(r"landed(?:_last|_last_of_day)?\(\s*'(\w+)'", self.sql)
        return named | {("landing", table) for table in landed}

    @property
    def columns(self) -> list[Mapping[str, Any]]:
        return list(self.declared.get("columns", []))


def _declared(path: Path, kind: str) -> Mapping[str, Any]:
    beside = path.with_suffix(".yml")
    if not beside.exists():
        return {}
    entries = yaml.safe_load(beside.read_text()).get(kind, [])
    return next((entry for entry in entries if entry["name"] == path.stem), {})


@cache
def models() -> list[Model]:
    return [Model(path.stem, path, path.read_text(), _declared(path, "models")) for path in sorted(MODELS.rglob("*.sql"))]


@cache
def seeds() -> dict[str, Mapping[str, Any]]:
    return {path.stem: _declared(path, "seeds") for path in sorted(SEEDS.glob("*.csv"))}


@cache
def doc_blocks() -> dict[str, str]:
    found: dict[str, str] = {}
    for path in sorted(MODELS.rglob("*.md")):
        for name, text in re.findall(r"{%\s*docs\s+(\w+)\s*%}(.*?){%\s*enddocs\s*%}", path.read_text(), flags=re.DOTALL):
            assert name not in found, f"{name} has two doc blocks"
            found[name] = text.strip()
    return found


def text_of(description: str) -> str:
    """The description with its doc blocks put in; a block nobody wrote is an error."""
    return re.sub(r"{{\s*doc\(\s*[\"'](\w+)[\"']\s*\)\s*}}", lambda match: doc_blocks()[match.group(1)], description).strip()


def meta_of(column: Mapping[str, Any]) -> Mapping[str, Any]:
    meta: Mapping[str, Any] = (column.get("config") or {}).get("meta") or {}
    return meta


def code_of(sql: str) -> str:
    """The SQL without comments, jinja and text literals."""
    for pattern in (r"{#.*?#}", r"{%.*?%}", r"{{.*?}}", r"--[^\n]*", r"'[^']*'"):
        sql = re.sub(pattern, " ", sql, flags=re.DOTALL)
    return sql


def every_model() -> pytest.MarkDecorator:
    return pytest.mark.parametrize("model", models(), ids=lambda model: model.name)


@every_model()
def test_a_model_says_what_it_holds_and_ends_with_its_grain(model: Model) -> None:
    assert model.declared, f"{model.path.with_suffix('.yml').name} must stand beside the model and name it"
    description = " ".join(text_of(model.declared.get("description", "")).split())
    assert re.search(r"One row( per [^.]+)?\.$", description), f"it must end in the grain: …{description[-80:]}"


@every_model()
def test_every_column_is_described_and_numbers_have_a_unit(model: Model) -> None:
    faults = []
    for column in model.columns:
        name, unit = column["name"], meta_of(column).get("unit")
        if not text_of(column.get("description", "")):
            faults.append(f"{name}: no description")
        if not column.get("data_type"):
            faults.append(f"{name}: no data_type")
        elif NUMBERS.fullmatch(column["data_type"]) and not unit and not UNMEASURED.search(name):
            faults.append(f"{name}: a number without a unit")
        if unit and unit not in UNITS:
            faults.append(f"{name}: {unit} is no unit of ours; write it like the others or add it to UNITS")
    assert model.columns, "no columns are described"
    assert not faults, faults


@every_model()
def test_a_ratio_says_what_is_divided_by_what(model: Model) -> None:
    if model.layer not in PUBLISHED:
        return
    quotients = [column for column in model.columns if re.search(r"_ratio(_|$)|_per_", column["name"])]
    unexplained = [column["name"] for column in quotients if not meta_of(column).get("formula")]
    assert not unexplained, f"config.meta.formula is missing: {unexplained}"


@every_model()
def test_published_models_have_an_enforced_contract_and_a_key_test(model: Model) -> None:
    if model.layer not in PUBLISHED:
        return
    assert ((model.declared.get("config") or {}).get("contract") or {}).get("enforced") is True
    tests = model.declared.get("data_tests") or []
    assert any("unique_key" in test for test in tests if isinstance(test, dict)), "a unique_key test on the model is missing"


@every_model()
def test_layers_point_one_way(model: Model) -> None:
    if model.name == "data_dictionary":
        assert not model.refs
        return
    allowed = LAYERS[model.layer]
    for name in model.refs:
        layer = "seed" if name in seeds() else name.split("_")[0]
        assert layer in allowed, f"{model.name} must not read {name}"
        assert any(other.name == name for other in models()) or name in seeds(), f"{name} is no model and no seed"
    if model.layer == "stg":
        assert len(model.sources) == 1, "staging reads one source"
    else:
        landing = {table for source, table in model.sources if source == "landing"}
        assert not landing, f"landed rows come through staging: {landing}"
    if model.layer == "mart":
        assert not model.sources


@every_model()
def test_sql_is_what_two_engines_read_alike(model: Model) -> None:
    code = code_of(model.sql)
    assert '"' not in code, "an identifier in double quotes is a text on Spark"
    assert code == code.lower(), "lower case"
    assert not re.search(r"\bhash\s*\(", code), "md5, not hash"
    for clause in re.findall(r"\border\s+by\b(.*?)(?=\)|\brows\b|\brange\b|\blimit\b|$)", _flat(code), flags=re.DOTALL):
        terms = [term for term in _split_terms(clause) if term.strip()]
        unordered = [term.strip() for term in terms if not re.search(r"\bnulls\s+(first|last)\b", term)]
        assert not unordered, f"say where nulls go: order by {unordered}"


@every_model()
def test_the_last_line_selects_the_last_step(model: Model) -> None:
    if model.layer == "stg":
        return
    last = [line for line in model.sql.strip().splitlines() if not line.strip().startswith(("{%", "--"))]
    tail = " ".join(" ".join(last).rsplit("\n)", 1)[-1].split())
    assert re.search(r"\bfrom \w+( where .*| group by .*)?$", tail), "the model ends by selecting from its last step"


def _flat(code: str) -> str:
    """Code without innermost brackets inside `order by` terms: functions become a word."""
    previous = None
    while previous != code:
        previous = code
        code = re.sub(r"\b(?!by\b|over\b|in\b|and\b|or\b|on\b|as\b|from\b|union\b|where\b)(\w+)\s*\(([^()]*)\)", r"\1_of", code)
    return code


def _split_terms(clause: str) -> list[str]:
    return clause.split(",")


def test_every_doc_block_is_used() -> None:
    texts = "".join(path.read_text() for path in [*MODELS.rglob("*.yml"), *SEEDS.glob("*.yml")])
    used = set(re.findall(r"doc\(\s*[\"'](\w+)[\"']\s*\)", texts))
    assert used <= set(doc_blocks()), f"no doc block of that name: {sorted(used - set(doc_blocks()))}"
    assert set(doc_blocks()) <= used, f"nobody uses: {sorted(set(doc_blocks()) - used)}"


def test_no_yaml_describes_a_model_that_is_not_there() -> None:
    for path in MODELS.rglob("*.yml"):
        for entry in yaml.safe_load(path.read_text()).get("models", []):
            assert path.with_name(f"{entry['name']}.sql").exists(), f"{path.name} describes {entry['name']}"


@pytest.mark.parametrize("name", seeds())
def test_a_seed_declares_every_column_with_its_type(name: str) -> None:
    declared = seeds()[name]
    with (SEEDS / f"{name}.csv").open(newline="") as file:
        header, *rows = csv.reader(file)
    assert list(declared["config"]["column_types"]) == header
    assert [column["name"] for column in declared["columns"]] == header
    assert re.search(r"One row per [^.]+\.$", " ".join(declared["description"].split()))
    assert all(len(row) == len(header) for row in rows)


def test_every_variable_that_is_read_has_a_value_and_a_sentence() -> None:
    project = (DBT_PROJECT / "dbt_project.yml").read_text()
    declared = yaml.safe_load(project)["vars"]
    texts = "".join(
        path.read_text() for folder in ("models", "macros", "tests", "seeds") for path in (DBT_PROJECT / folder).rglob("*.*")
    )
    read = set(re.findall(r"var\(\s*[\"'](\w+)[\"']", texts))
    assert read <= set(declared), f"no value in dbt_project.yml: {sorted(read - set(declared))}"
    lines = project.splitlines()
    for name in declared:
        position = next(number for number, line in enumerate(lines) if line.strip().startswith(f"{name}:"))
        before = lines[position - 1].strip()
        assert before.startswith("#") or any(before.startswith(f"{other}:") for other in declared), f"{name} has no sentence"


def test_every_macro_is_described_with_its_arguments() -> None:
    """`macros/_macros.yml`; the forms for one engine (`duckdb__…`) are described by the macro that calls them."""
    texts = [path.read_text() for folder in ("macros", "tests") for path in sorted((DBT_PROJECT / folder).rglob("*.sql"))]
    written = {
        ("test_" if kind == "test" else "") + name: [
            argument.split("=")[0].strip() for argument in arguments.split(",") if argument
        ]
        for text in texts
        for kind, name, arguments in re.findall(r"{%-?\s*(macro|test)\s+(\w+)\(([^)]*)\)", text)
        if "__" not in name
    }
    described = yaml.safe_load((DBT_PROJECT / "macros" / "_macros.yml").read_text())["macros"]
    assert {macro["name"]: [argument["name"] for argument in macro.get("arguments", [])] for macro in described} == written
    sentences = [entry["description"] for macro in described for entry in (macro, *macro.get("arguments", []))]
    assert all(sentence.endswith(".") for sentence in sentences)


def test_no_model_is_named_outside_the_layers() -> None:
    assert {model.layer for model in models() if model.name != "data_dictionary"} <= set(LAYERS)


def test_the_tables_that_are_promised_are_models() -> None:
    """`interfaces.md`, of what the first slice publishes."""
    promised = {
        *("dim_date", "dim_states", "dim_clusters", "dim_nodes", "dim_gpus", "dim_gpu_history", "dim_slots", "dim_models"),
        *("dim_workloads", "dim_runs"),
        *("fct_gpu_ledger_hourly", "fct_gpu_idle_spans", "fct_inference_hourly", "fct_billing_lines", "fct_collection_runs"),
        *("mart_workload_gpu_hours_daily", "mart_gpu_idle_time_daily", "mart_ghost_capacity_daily", "mart_gpu_net_daily"),
        *("mart_unit_economics_daily", "mart_cost_reconciliation_daily", "mart_data_coverage_daily"),
        *("fct_inference_latency_hourly", "mart_workload_behavior_hourly", "mart_workload_spectrum_hourly"),
        *("mart_queue_pressure_hourly", "mart_power_and_thermal_daily", "mart_fleet_inventory"),
        *("fct_unbalanced_spans", "fct_oversized_daily"),
        *("audit_gpu_hours_conserved", "audit_cost_reconciled", "data_dictionary"),
    }
    assert promised <= {model.name for model in models()}
