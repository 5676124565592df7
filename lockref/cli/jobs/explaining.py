"""A stored failure, explained on the terminal, as a picture, as a page, and as a scenario file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lockref.errors import ConfigError
from reports.explanation.terminal import explanation_text
from scenarios.failures.explained import explain as explained
from scenarios.failures.failure_store import find_failures, is_own

if TYPE_CHECKING:
    from lockref.cli.jobs.console import Console


def explain(
    console: Console,
    name: str,
    *,
    provider: str | None,
    trust: bool,
) -> int:
    """Tell the cause of the failure that `name` means, and write what was asked for. Returns the exit code, 0.

    name: an id, or a file. provider: another lock under the same plan. trust: import code that a file names, too; what
    a failure in the store of this folder names is imported anyway.
    Errors: ConfigError for a name that is no failure, for a folder, and for what `explained` raises.
    """
    paths = find_failures(name)
    if len(paths) > 1:
        raise ConfigError(f"{name} holds {len(paths)} failures; name one of them, such as {paths[0]}")
    [path] = paths
    explanation = explained(path, provider=provider, may_import=trust or is_own(path), name=name)
    for line in explanation_text(explanation).split("\n"):
        console.say(line, style="head" if line.startswith("✗") else "bad" if "← breaks" in line else "")
    if console.as_json:
        console.document(explanation.as_json())
    return 0
