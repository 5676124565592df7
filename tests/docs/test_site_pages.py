"""What the site makes of the code: docstrings, commands, schemas, histories and public names as Markdown."""

from __future__ import annotations

import re

import click
import pytest
from sphinx.errors import ExtensionError

import lockref
import lockref.testing
from docs.site.api_pages import api
from docs.site.command_pages import commands
from docs.site.described import described
from docs.site.item_pages import catalogue_of_scenarios
from docs.site.markdown import code, escaped, prose, table
from docs.site.marks import DOCS, GENERATED, MARK, filled
from docs.site.record_tables import event_types, gate_keys, results_keys, run_types
from docs.site.scenario_keys import fault_keys, keys, keys_of_a_file
from docs.site.schema_tables import Forms, section
from lockref.cli.main import cli
from lockref.history import RUNS_SCHEMA, SCHEMA
from reports.formats.gate_result import GateResult
from reports.formats.results import Results
from scenarios.definition.load import catalogue
from scenarios.definition.schema import Scenario
from sim.faults.plan import FAULT_TYPES


def test_markup_outside_of_code_is_escaped() -> None:
    """A docstring knows no markup but code; a bar parts the cells of a table, even within code."""
    assert escaped("a *b* `c*` <d> _e f_g") == r"a \*b\* `c*` \<d\> \_e f_g"
    assert code("a`b") == "`` a`b ``"
    assert table(["x"], [["a|b `c|d`"]]) == "| x |\n| --- |\n| a\\|b `c\\|d` |\n"


def test_an_indented_paragraph_stands_as_it_is() -> None:
    """A command line in a docstring is no prose."""
    assert prose("Do this:\n\n    run *it*\n\nThen *stop*.") == (
        "Do this:\n\n```text\nrun *it*\n```\n\nThen \\*stop\\*."
    )


def test_a_docstring_says_what_each_field_means() -> None:
    """`name: sentence`, several names, several lines; a part about no field and a blank line end it."""
    text = (
        "A thing.\n\nkind: what it is; as a word. a, b: both\nof them. c: third; d: fourth.\nErrors: none.\n\nIn b: no."
    )
    told = described(text, ["kind", "a", "b", "c", "d", "e"])
    assert told.fields == {
        "kind": "what it is; as a word.",
        "a": "both of them.",
        "b": "both of them.",
        "c": "third",
        "d": "fourth.",
    }
    assert told.about == "A thing.\n\nErrors: none.\n\nIn b: no."


def _commands(group: click.Group, context: click.Context) -> list[tuple[str, click.Command]]:
    found = []
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        path = f"{context.command_path} {name}"
        found.append((path, command))
        if isinstance(command, click.Group):
            found += _commands(command, click.Context(command, info_name=name, parent=context))
    return found


def test_every_command_and_option_is_in_the_reference() -> None:
    """Each command has a section; its part of the page has each option that `--help` shows, with a sentence."""
    page = commands()
    sections = dict(re.findall(r"^#{2,3} `([^`]+)`\n(.*?)(?=^#{2,3} |\Z)", page, re.MULTILINE | re.DOTALL))
    known = _commands(cli, click.Context(cli, info_name="lockref"))
    assert list(sections) == [path for path, _ in known]
    for path, command in known:
        for option in command.params:
            if isinstance(option, click.Option) and not option.hidden:
                assert f"`{option.opts[0]}`" in sections[path], f"{path} {option.opts[0]}"
    assert not re.findall(r"\n: {2,}", page), "an option without a sentence"


def test_the_variable_of_an_option_is_the_one_that_click_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    """`lockref sim` reads its seeds from the variable that the page names; a value that is no range is refused."""
    assert "Variable: `LOCKREF_SIM_SEEDS`." in commands()
    monkeypatch.setenv("LOCKREF_SIM_SEEDS", "no range")
    with pytest.raises(click.BadParameter, match="no range"):
        cli.main(["sim", "e01"], prog_name="lockref", standalone_mode=False)


def test_every_key_of_a_scenario_is_in_the_reference() -> None:
    """With form, default and sentence; and every kind of fault has a section."""
    rows = dict(re.findall(r"^\| `(\w+)` \|(.*)\|$", keys().split("## Clock")[0], re.MULTILINE))
    assert list(rows) == list(Scenario.model_fields)
    assert all(cell.strip() for row in rows.values() for cell in re.split(r"(?<!\\)\|", row))
    assert rows["duration"].endswith("| [duration](../scenarios.md#quantities) | `60s` ")
    assert re.findall(r"^### `(\w+)`", fault_keys(), re.MULTILINE) == list(FAULT_TYPES)
    assert list(re.findall(r"^\| `(\w+)` \|", keys_of_a_file(), re.MULTILINE)) == list(Scenario.model_fields)


def test_a_key_without_a_sentence_stops_the_build() -> None:
    """The docstring of a model has to say what each key means."""
    definition = {
        "description": "A thing.\n\na: first.",
        "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
    }
    forms = Forms(known={}, names={})
    with pytest.raises(ExtensionError, match="the docstring of ## Thing says nothing of b"):
        section("## Thing", definition, forms)
    assert "| `b` |  | text | – |" in section("## Thing", definition, forms, every_key=False)


TEXT = {"type": "string"}


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ({"type": "integer", "minimum": 1, "maximum": 9}, "whole number, 1 to 9"),
        ({"type": "integer", "minimum": 0}, "whole number, at least 0"),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, "text"),
        ({"enum": ["a", "b"]}, "`a`, `b`"),
        ({"$ref": "#/$defs/Lock"}, "[Lock](#lock)"),
        ({"type": "array", "items": {"type": "boolean"}}, "list of `true` or `false`"),
        ({"type": "array", "prefixItems": [{"type": "number"}, {"type": "integer"}]}, "list: number, whole number"),
        ({"type": "object", "additionalProperties": {"type": "string"}}, "mapping of text to text"),
        (
            {"type": "object", "patternProperties": {"^n[1-9][0-9]{0,3}$": {"type": "string"}}},
            "mapping of client to text",
        ),
    ],
)
def test_a_schema_is_told_in_words(schema: dict[str, object], words: str) -> None:
    """Which values a key may have, as a table has room for it."""
    assert Forms(known={}, names={}).of(schema) == words


def test_the_columns_of_a_history_are_those_of_its_schema() -> None:
    """Each with its type, in order; and docs/history.md says of each what it means."""
    for made, schema in ((event_types(), SCHEMA), (run_types(), RUNS_SCHEMA)):
        assert re.findall(r"^\| `(\w+)` \|", made, re.MULTILINE) == schema.names
    page = (DOCS / "history.md").read_text(encoding="utf-8")
    assert [name for name in (*SCHEMA.names, *RUNS_SCHEMA.names) if f"`{name}`" not in page] == []


def test_every_key_of_the_documents_of_a_run_is_in_the_reference() -> None:
    """Of results.json and of gate.json."""
    for made, model in ((results_keys(), Results), (gate_keys(), GateResult)):
        first = made.split("\n### ")[0]
        assert re.findall(r"^\| `(\w+)` \|", first, re.MULTILINE) == list(model.model_fields)


def test_every_public_name_is_in_the_reference() -> None:
    """With what its docstring says; a name without one would be an empty entry."""
    page = api()
    for package in (lockref, lockref.testing):
        for name in package.__all__:
            found = re.search(rf"\{{py:\w+\}} {re.escape(package.__name__)}\.{name}\b.*\n(.*)", page)
            assert found, f"{package.__name__}.{name} is missing"
            assert found[1].strip(), f"{package.__name__}.{name} says nothing"


def test_an_error_names_its_exit_code() -> None:
    """Of those that the command line answers with a code of their own."""
    page = api()
    entry = page[page.index("{py:exception} lockref.BackendUnavailable") :].split("`````")[0]
    assert entry.rstrip().endswith("Exit code of a command: [5](../troubleshooting.md).")


def test_every_scenario_of_the_catalogue_is_in_the_reference() -> None:
    """Each has a section, under the name by which the index of ids links to it."""
    assert re.findall(r"^## (.+)$", catalogue_of_scenarios(), re.MULTILINE) == [path.stem for path in catalogue()]


def test_every_place_that_the_site_fills_is_on_a_page() -> None:
    """What nobody shows need not be made; a name that nobody makes is an error."""
    marks = {name for page in DOCS.rglob("*.md") for name in MARK.findall(page.read_text(encoding="utf-8"))}
    assert {name for name in marks if not name.startswith("file ")} == set(GENERATED)
    with pytest.raises(ExtensionError, match="makes nothing named 'nonsense'"):
        filled(DOCS / "page.md", "<!-- site: nonsense -->\n<!-- end -->\n")
