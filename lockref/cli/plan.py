"""`lockref plan`: the planner of `lockref delta plan`, under the name that users of any table format look for."""

from __future__ import annotations

from lockref.cli.delta import plan_command

command = plan_command
