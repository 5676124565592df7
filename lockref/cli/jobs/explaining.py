"""A stored failure, explained on the terminal, as a picture, as a page, and as a scenario file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from lockref.atomic_files import write_atomically
from lockref.cli.jobs.shown.console import printable
from lockref.errors import ConfigError
from reports.explanation.terminal import explanation_text
from reports.html.explanation import explanation_picture, write_explanation
from scenarios.failures.explained import explain as explained
from scenarios.failures.kept_case import kept_case
from scenarios.failures.stored_failures import find_failures, is_own

NOT_SHOWN = "no seed that was tried breaks the clause without the stored schedule; `lockref replay` has that"

if TYPE_CHECKING:
    from lockref.cli.jobs.shown.console import Console


def explain(
    console: Console,
    name: str,
    *,
    provider: str | None,
    svg: Path | None,
    html: Path | None,
    yaml_file: Path | None,
    trust: bool,
) -> int:
    """Tell the cause of the failure that `name` means, and write what was asked for. Returns the exit code, 0.

    name: an id, or a file. provider: another lock under the same plan. svg, html, yaml_file: files to write. trust:
    import code that a file names, too; what a failure in the store of this folder names is imported anyway.
    Errors: ConfigError for a name that is no failure, for a folder, and for what `explained` raises.
    """
    paths = find_failures(name)
    if len(paths) > 1:
        raise ConfigError(f"{name} holds {len(paths)} failures; name one of them, such as {paths[0]}")
    [path] = paths
    explanation = explained(path, provider=provider, may_import=trust or is_own(path), name=name)
    for line in explanation_text(explanation).split("\n"):
        console.say(line, style="head" if line.startswith("✗") else "bad" if "← breaks" in line else "")
    if svg is not None:
        write_atomically(svg, explanation_picture(explanation))
        console.say(f"  picture   {printable(str(svg))}")
    if html is not None:
        console.say(f"  page      {printable(str(write_explanation(explanation, html)))}")
    if yaml_file is not None:
        kept = kept_case(path, explanation, provider=provider, may_import=trust or is_own(path))
        write_atomically(yaml_file, kept.text)
        line = f"lockref sim {printable(str(yaml_file))} --provider {printable(explanation.provider)}"
        console.say(f"  scenario  {line}" if kept.breaks else f"  scenario  {printable(str(yaml_file))}: {NOT_SHOWN}")
    if console.as_json:
        console.document(explanation.as_json())
    return 0
