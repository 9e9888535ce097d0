"""Summaries of solves: attributes, text, and a table with a plot for notebooks."""

from __future__ import annotations

import contextlib
import html
import json
import math
import types
from typing import Any, Callable, Iterator

import numpy as np


class _Kept:
    """What a summary says, without the solver's objects: for pickles and copies."""

    def __init__(self, core: Any, model: Any) -> None:
        texts = {name: getattr(core, name)() for name in ("brief_report", "full_report", "json")}
        try:
            found = core.multipliers(model)
        except Exception:  # no constraints, or more of them since the solve
            found = None
        names = [n for n in dir(core) if not n.startswith("_")]
        numbers = {n: getattr(core, n) for n in names if n not in texts and n != "multipliers"}
        numbers["iterations"] = [
            types.SimpleNamespace(**{n: getattr(step, n) for n in dir(step) if not n.startswith("_")})
            for step in numbers["iterations"]]
        self.__dict__.update(numbers)
        self._texts, self._multipliers = texts, found

    def brief_report(self) -> str:
        return self._texts["brief_report"]

    def full_report(self) -> str:
        return self._texts["full_report"]

    def json(self) -> str:
        return self._texts["json"]

    def multipliers(self, _: Any) -> np.ndarray:
        if self._multipliers is None:
            raise ValueError("multipliers: the solve had no constraints")
        return self._multipliers


class Summary:
    """What a solve did: initial_cost, final_cost, optimality, termination, message, success, iterations,
    num_iterations, degrees_of_freedom, accepted, rejected, backend, device, why, linear_solver,
    seconds, interrupted."""

    def __init__(self, core: Any, model: Any) -> None:
        self._core = core
        self._model = model

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._core, name)

    def __reduce__(self) -> Any:
        kept = self._core if isinstance(self._core, _Kept) else _Kept(self._core, self._model)
        return Summary, (kept, None)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *(n for n in dir(self._core) if not n.startswith("_"))})

    def multipliers(self, constraints: Any = None) -> np.ndarray:
        """λ of these constraints, what Problem.equalities or Problem.inequalities returned, or of
        all scalar constraints in the order of adding.

        The Lagrangian is f - λᵀc: λ >= 0 for inequalities, and df = λ dc says how fast the minimum
        grows if 0 becomes a small positive number. Raises an Error if constraints were added after
        the solve.
        """
        if constraints is not None and constraints._model is not self._model:
            raise ValueError("multipliers: expected constraints of the problem that was solved")
        numbers = self._core.multipliers(self._model)
        return numbers if constraints is None else numbers[constraints.rows]

    def full_report(self) -> str:
        """Some thirty lines: sizes, backend and reason, costs, steps, times."""
        return self._core.full_report()

    def json(self) -> dict:
        """The whole report as a dictionary."""
        return json.loads(self._core.json())

    def __repr__(self) -> str:
        return self._core.brief_report()

    def _repr_html_(self) -> str:
        rows = {
            "Termination": f"{self.termination}: {self.message}",
            "Cost": f"{self.final_cost:.9g}, from {self.initial_cost:.9g}",
            "Steps": f"{self.accepted} accepted, {self.rejected} rejected",
            "Where": f"{self.backend} ({self.device}), {self.linear_solver}",
            "Time": f"{self.seconds:.3g} s",
        }
        table = "".join(f"<tr><th style='text-align:left'>{k}</th><td style='text-align:left'>"
                        f"{html.escape(v)}</td></tr>" for k, v in rows.items())
        costs = [s.cost for s in self.iterations]
        return f"<table>{table}</table>{convergence_plot(costs)}"


def convergence_plot(costs: list[float], width: int = 420, height: int = 140) -> str:
    """The cost of each step as an SVG picture, on a logarithmic axis."""
    shown = [(k, c) for k, c in enumerate(costs) if math.isfinite(c) and c > 0]
    if len(shown) < 2:
        return ""
    low, high = math.log10(min(c for _, c in shown)), math.log10(max(c for _, c in shown))
    span = (high - low) or 1.0
    last = shown[-1][0]

    def point(k: int, c: float) -> str:
        x = 60 + (width - 75) * k / last
        y = 10 + (height - 40) * (high - math.log10(c)) / span
        return f"{x:.1f},{y:.1f}"

    points = " ".join(point(k, c) for k, c in shown)
    text = "font-family='sans-serif' font-size='11' fill='currentColor'"
    return (
        f"<svg width='{width}' height='{height}' role='img' aria-label='cost by step'>"
        f"<polyline points='{points}' fill='none' stroke='#2a6fb0' stroke-width='2'/>"
        f"<text x='4' y='16' {text}>{10**high:.2g}</text>"
        f"<text x='4' y='{height - 26}' {text}>{10**low:.2g}</text>"
        f"<text x='60' y='{height - 6}' {text}>cost by step, 0 to {last}</text></svg>"
    )


@contextlib.contextmanager
def progress_bar(shown: bool, callback: Callable[[Any], Any] | None,
                 options: dict) -> Iterator[Callable[[Any], Any] | None]:
    """A callback that also moves a progress bar; the callback itself if none is wanted."""
    if not shown:
        yield callback
        return
    try:
        from tqdm.auto import tqdm
    except ImportError:
        def printed(step: Any) -> Any:
            print(f"step {step.iteration}: cost {step.cost:.6g}")
            return None if callback is None else callback(step)

        yield printed
        return
    with tqdm(total=options.get("max_iterations", 50), unit="step") as bar:
        def moved(step: Any) -> Any:
            bar.n = step.iteration
            bar.set_postfix_str(f"cost {step.cost:.6g}")
            bar.refresh()
            return None if callback is None else callback(step)

        yield moved
