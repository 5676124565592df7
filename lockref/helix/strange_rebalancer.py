"""Ask a rebalancer that is not ours. Its errors, its answers and its slowness must not stop the controller."""

from __future__ import annotations

from collections.abc import Callable

from lockref.errors import ConfigError
from lockref.helix import rebalancers
from lockref.helix.rebalancers import Assignment, BadAssignment, Question, Rebalancer, checked
from lockref.runtime import NS_PER_S, MonoNs, Runtime, Task


class Cabinet:
    """The rebalancers of one controller, by name. Each is loaded once, so that it may keep state (Z15).

    limit_ns: how long one that is not ours may take for one answer.
    """

    def __init__(self, runtime: Runtime, limit_ns: int) -> None:
        self._runtime = runtime
        self._limit_ns = limit_ns
        self._loaded: dict[str, Rebalancer] = {}

    def of(self, name: str) -> Rebalancer:
        """The rebalancer of that name. One that cannot be loaded fails when it is asked, which keeps all holders."""
        if name in self._loaded:
            return self._loaded[name]
        try:
            found = rebalancers.load(name)
        except ConfigError as error:
            return _failing(str(error))
        if all(found is not each for each in rebalancers.REBALANCERS.values()):
            found = BoundedRebalancer(found, self._runtime, self._limit_ns)
        self._loaded[name] = found
        return found


def _failing(words: str) -> Rebalancer:
    def missing(_question: Question) -> Assignment:
        raise ConfigError(words)

    return missing


class BoundedRebalancer:
    """Ask a rebalancer in a task of its own, and wait for at most `limit_ns`.

    While an answer is overdue, the rebalancer is asked nothing more. A task cannot be ended from outside: if it never
    returns, it stays, and the alarm stays with it.
    """

    def __init__(self, inner: Callable[[Question], object], runtime: Runtime, limit_ns: int) -> None:
        self._inner = inner
        self._runtime = runtime
        self._limit_ns = limit_ns
        self._overdue: tuple[Task, MonoNs] | None = None

    def __call__(self, question: Question) -> Assignment:
        """Errors: BadAssignment for an answer that is late or impossible; any error of the rebalancer itself."""
        if self._overdue is not None:
            task, since_ns = self._overdue
            if task.is_alive():
                for_s = (self._runtime.monotonic_ns() - since_ns) // NS_PER_S
                raise BadAssignment(f"the rebalancer was asked {for_s} s ago and has not answered yet")
            self._overdue = None
        done = self._runtime.event()
        found: list[Assignment | BaseException] = []

        def work() -> None:
            try:
                found.append(checked(question, self._inner(question)))
            except (Exception, SystemExit) as error:  # noqa: BLE001 - a stranger's rebalancer may raise anything (T9)
                found.append(error)
            finally:
                done.set()

        asked_ns = self._runtime.monotonic_ns()
        task = self._runtime.spawn(work, name="rebalancer")
        if not done.wait(self._limit_ns):
            self._overdue = task, asked_ns
            raise BadAssignment(f"the rebalancer did not answer within {self._limit_ns / NS_PER_S:g} s")
        (answer,) = found
        if isinstance(answer, SystemExit):
            raise BadAssignment(f"the rebalancer wanted to end the program: SystemExit({answer.code})")
        if isinstance(answer, BaseException):
            raise answer
        return answer
