"""Text of strangers is read by the strict readers alone, read from the source without running it.

`json.loads` and `int` take more than a format allows, and fail with errors that nobody expects: see
`lockref.strict_json` and `lockref.grammar`. What is allowed here has its reason beside it.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator

import pytest

from tests.quality.source_trees import READS_SOURCES, ROOMS, ROOT, tree

OWN = "bytes that this process has just made"
PIPE = "lines of a process that lockref started, and whose program it is"
PEER = "a development tool's or a reference program's output, read by a developer's command"

JSON: dict[str, tuple[int, str]] = {
    "lockref/strict_json.py": (2, "the reader itself"),
    "lockref/clouds/dynamodb/client.py": (2, OWN),
    "lockref/dynamodb/rows.py": (2, OWN),
    "lockref/dynamodb/table.py": (3, "items that the table's channel has made from typed attributes"),
    "lockref/coordination/port.py": (2, "names of children and a session, as the channel has put them together"),
    "sim/services/table.py": (2, "states of the modelled table, which holds items alone (`_is_item`)"),
    "lockref/helix/shipped/stored_record.py": (2, "as Helix' own reader, whose leniency is what is modelled"),
    "lockref/storage/lockfile.py": (2, "as Hudi's own reader (Jackson): the first value, duplicate names seen"),
    "scenarios/workloads/delta/item_queue.py": (2, "receipts and items between the queue and its own client"),
    "scenarios/runs.py": (1, "this command's own arguments, printed and read again"),
    "scenarios/helix/participants_process.py": (2, PIPE),
    "scenarios/helix/controller_process.py": (2, PIPE),
    "scenarios/injection/session.py": (1, PIPE),
    "scenarios/backends/asked_process.py": (1, PEER),
    "scenarios/backends/node.py": (2, "npm's lock file, in a folder that its hash names"),
}
"""File to how often it reads JSON in another way, and why it may."""

TEXT_ROOMS = (
    "lockref/cli", "lockref/clouds", "lockref/coordination", "lockref/delta", "lockref/dynamodb", "lockref/helix",
    "lockref/lab", "lockref/locks", "lockref/storage", "lockref/stores", "scenarios/definition", "scenarios/delta",
    "scenarios/evaluation", "scenarios/injection", "scenarios/probe", "scenarios/wire", "scenarios/workloads",
    "sim/faults", "sim/services", "reports/figures", "reports/formats", "reports/pipeline",
)  # fmt: skip
"""The rooms where text of strangers is read. The judge reads columns of typed tables."""

MATCHED = "a pattern has bounded form and length"
TYPED = "a number of a library's typed answer, or of our own table"
NAMED = "a client's or a scenario's name in our own form"

NUMBERS: dict[str, tuple[set[str], str]] = {
    "lockref/cli/options.py": (
        {"int(part)", "int(code)"},
        "an option; its ValueError is caught and told",
    ),
    "scenarios/evaluation/prices.py": ({"float(value)"}, "a number that the file's reader has found to be one"),
    "lockref/cli/jobs/runs/kept.py": ({"int(row['bytes'])"}, TYPED),
    "lockref/grammar.py": (
        {"int(plain)", "int(plain, 16)", "int(found[1])", "int(found[2])", "int(found[3])"},
        MATCHED,
    ),
    "lockref/clouds/aws.py": ({"int(metadata.get('HTTPStatusCode', 0))"}, TYPED),
    "lockref/clouds/azure/client.py": ({"int(reply.status_code)"}, TYPED),
    "lockref/clouds/gcs/client.py": ({"int(error.code or 0)"}, TYPED),
    "lockref/coordination/znode_store.py": ({"int(created, 16)", "int(number)"}, "a version that this store has made"),
    "lockref/clouds/dynamodb/client.py": ({"int(answer['ResponseMetadata']['HTTPStatusCode'])"}, TYPED),
    "lockref/helix/cluster/cluster_file.py": ({"int(count)"}, "a count that the model's check has found to be one"),
    "lockref/helix/cluster/declared_model.py": ({"int(rest[0])"}, "a place in our own list"),
    "lockref/helix/cluster/file_values.py": ({"int(value)"}, TYPED),
    "lockref/helix/shipped/stored_record.py": ({"int(found)"}, "digits alone, and the caller takes the ValueError"),
    "lockref/helix/state_model.py": ({"int(count)"}, "a count that the model's check has found to be one"),
    "lockref/lab/windows.py": ({"int(found[1])"}, MATCHED),
    "lockref/lab/spool.py": (
        {
            "int(name[1])",
            "int(name[2])",
            "int(rows[-1, ROW_COLUMNS.index('at_ns')])",
            "int(np.argmin(is_written))",
        },
        MATCHED,
    ),
    "lockref/locks/adaptive_waiting.py": ({"int(self._turn)"}, TYPED),
    "lockref/locks/pace.py": ({"float(found)"}, TYPED),
    "lockref/locks/turn_note.py": ({"int(found[1])", "int(found[2])", "int(found[3])"}, MATCHED),
    "lockref/storage/audit.py": ({"int(value)"}, "a finite float of the strict reader"),
    "lockref/storage/config.py": ({"int(text)"}, MATCHED),
    "lockref/storage/lockfile.py": (
        {
            "int(value)",
            "float(value)",
            "int(number)",
            "int(text)",
            "int(valid_until_ms)",
            "int(fence)",
            "int(mark)",
        },
        "as Hudi's own reader; every ValueError becomes a CorruptRecord",
    ),
    "lockref/storage/metrics.py": (
        {"float(next((sample.value for sample in samples if sample.name.endswith(suffix) or not suffix)))"},
        TYPED,
    ),
    "lockref/stores/localfs.py": ({"int(digits)"}, "twenty digits beside their checksum"),
    "lockref/stores/probe/clauses.py": ({"int(one.clause[1:])"}, NAMED),
    "lockref/clouds/without_cloud.py": ({"int(found[2])"}, MATCHED),
    "scenarios/definition/load.py": ({"int(item[2])"}, MATCHED),
    "scenarios/definition/mixture.py": ({"int(client.removeprefix('n'))"}, NAMED),
    "reports/checks/thresholds/limits.py": (
        {"int(np.quantile(samples, share, method='inverted_cdf'))", "float(samples.mean())", "int(name[1:])"},
        TYPED,
    ),
    "scenarios/definition/units.py": (
        {"int(exact)", "float(number)", "float(text)"},
        "a Decimal of at most 64 characters, or a number of YAML",
    ),
    "scenarios/delta/measured.py": ({"int(value)"}, TYPED),
    "scenarios/injection/announcing.py": ({"int(self._answers.readline() or 0)"}, PIPE),
    "scenarios/injection/http_messages.py": ({"int(found[1])"}, MATCHED),
    "scenarios/wire/dates.py": ({"int(date.timestamp())"}, TYPED),
    "scenarios/wire/decoders.py": (
        {"int(digits.ljust(9, '0')[:9] or 0)", "float(value)", "int(value)", "int(number)"},
        MATCHED,
    ),
    "scenarios/wire/processes/keeper.py": ({"int(word)"}, "the kernel's list of children"),
    "scenarios/wire/processes/programs.py": ({"int(number)"}, PIPE),
    "scenarios/workloads/counter.py": ({"int(write.based_on)"}, "a value that the counter has told before"),
    "scenarios/workloads/delta/landings.py": ({"int(row['version'])"}, "a version that this workload has told"),
    "scenarios/workloads/delta/item_queue.py": ({"int(request.condition)"}, "a count that its own client has written"),
    "scenarios/workloads/delta/log_files.py": ({"int(found['version'])"}, MATCHED),
    "scenarios/workloads/delta/places.py": ({"int(client.removeprefix('n').partition('-')[0])"}, NAMED),
    "scenarios/workloads/delta/renaming.py": (
        {"int(renaming.destination.rpartition('/')[2].removesuffix('.json'))"},
        "a destination that this writer has made",
    ),
    "sim/faults/counts.py": ({"int(now)"}, TYPED),
    "reports/figures/timeline.py": ({"int(tick.label)", "float(HEAD)"}, MATCHED),
    "reports/formats/block.py": ({"int(entry['at_ns'])"}, TYPED),
    "reports/pipeline/analysis.py": ({"int(spark.sparkContext.defaultParallelism)"}, TYPED),
    "reports/pipeline/distributions.py": (
        {
            "float(value)",
            "int(self._sketch.n)",
            "float(self._sketch.normalized_rank_error(False))",
            "float(ends.get(point, value))",
        },
        TYPED,
    ),
    "reports/pipeline/planning.py": (
        {
            "int(self.counts[begin:end].sum())",
            "int(runs[begin])",
            "int(counts[begin:end].sum())",
            "int(runs[end - 1])",
            "int(counts.argmax())",
        },
        TYPED,
    ),
    "reports/pipeline/tallies.py": ({"int(grants[rows].sum())", "int(streak[rows].max())"}, TYPED),
    "reports/pipeline/worker.py": (
        {"int(places[0])", "int(pc.sum(pc.equal(lost['reason'], NO_ROW_IN_RUNS)).as_py() or 0)"},
        TYPED,
    ),
    "reports/formats/results.py": ({"float(f'{100 * share:.2g}')"}, TYPED),
    "reports/formats/text.py": ({"int(match.group(1))"}, MATCHED),
}
"""File to the conversions that do not go through the strict grammar, and why they may stay."""


def json_readers(module: ast.AST) -> int:
    """How often a module reads JSON by itself."""
    names = [
        node.attr
        for node in ast.walk(module)
        if isinstance(node, ast.Attribute)
        and (node.attr == "raw_decode" or (isinstance(node.value, ast.Name) and node.value.id == "json"))
    ]
    named = [alias.name for node in ast.walk(module) if isinstance(node, ast.ImportFrom) and node.module == "json"
             for alias in node.names]  # fmt: skip
    return sum(name in ("load", "loads", "JSONDecoder", "raw_decode") for name in names) + len(named)


def conversions(module: ast.AST) -> Iterator[str]:
    """Calls of `int` and `float` whose argument may be text: no sum, comparison, rounded or counted thing."""
    for node in ast.walk(module):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("int", "float")):
            continue
        if not node.args or isinstance(node.args[0], ast.BinOp | ast.Compare | ast.Constant):
            continue
        made = node.args[0].func if isinstance(node.args[0], ast.Call) else None
        if not (isinstance(made, ast.Name) and made.id in ("round", "len", "min", "max", "sum", "abs")):
            yield ast.unparse(node)


@READS_SOURCES
@pytest.mark.parametrize("room", ROOMS)
def test_json_of_strangers_is_read_by_the_strict_reader_alone(room: str) -> None:
    found = {
        str(path.relative_to(ROOT)): count
        for path in sorted((ROOT / room).rglob("*.py"))
        if (count := json_readers(tree(path)))
    }
    assert found == {name: count for name, (count, _why) in JSON.items() if name.startswith(f"{room}/")}


@READS_SOURCES
@pytest.mark.parametrize("room", TEXT_ROOMS)
def test_numbers_of_strangers_are_read_by_the_strict_grammar_alone(room: str) -> None:
    found = {
        str(path.relative_to(ROOT)): calls
        for path in sorted((ROOT / room).rglob("*.py"))
        if (calls := set(conversions(tree(path))))
    }
    assert found == {name: calls for name, (calls, _why) in NUMBERS.items() if name.startswith(f"{room}/")}


def test_the_checks_see_what_they_look_for() -> None:
    """A check that finds nothing anywhere would pass as well."""
    assert json_readers(ast.parse("import json\njson.loads(a)\njson.load(b)\njson.JSONDecoder().raw_decode(c)")) == 4
    assert json_readers(ast.parse("from json import loads")) == 1
    numbers = ast.parse("int(a.text)\nfloat(b)\nint(round(c))\nint(d / 2)\nint(e, 16)")
    assert Counter(conversions(numbers)) == Counter(["int(a.text)", "float(b)", "int(e, 16)"])
