"""Problem: large sparse least squares over blocks of unknowns."""

from __future__ import annotations

import ctypes
import math
import warnings
from typing import Any, Callable, Sequence

import numpy as np
from scipy.sparse import csr_matrix

from . import _core
from ._shim import run_traced
from ._summary import Summary, progress_bar
from ._losses import checked_loss
from ._trace import Array, Trace, TracingError, as_numpy, returned

Loss = Any  # None, a name, (name, scale) such as ("huber", 1.5), a function ρ(z), or (ρ, scale)


def _core_loss(loss: Loss) -> Any:
    if callable(loss):
        return checked_loss(loss)
    if isinstance(loss, tuple) and len(loss) == 2 and callable(loss[0]):
        scale = float(loss[1])
        if not 0.0 < scale < np.inf:
            raise ValueError(f"loss: expected a positive scale, got {scale}")
        return checked_loss(loss[0], scale)
    return loss


#: Rows of a call that are compared with the function's numbers, of calls with at most so many.
_CHECKED, _MOST_CHECKED = 64, 100_000


def _writable(array: np.ndarray) -> np.ndarray:
    """The same memory, for an array that NumPy cannot know to be writable: DLPack does not say."""
    if array.flags.writeable or not array.flags.c_contiguous or array.dtype.kind != "f":
        return array
    memory: Any = (ctypes.c_char * array.nbytes).from_address(array.ctypes.data)
    return np.frombuffer(memory, array.dtype).reshape(array.shape)


class Parameters(Array):
    """An array of unknowns: as an array, what residuals read; `value` has the present numbers.

    Slices and index arrays of it are unknowns, too, which `Problem.fix` and the like take.
    """

    __slots__ = ("value", "places", "name", "_memory", "_number", "_owner")

    #: The caller's array, which a solve overwrites, or a copy of it. Other libraries read it by the
    #: buffer protocol or DLPack.
    value: np.ndarray
    #: Where these unknowns are in Problem.x(), and which columns of jacobian() are theirs.
    places: slice
    #: What messages call them.
    name: str
    _memory: np.ndarray
    _owner: Any
    _number: int

    def __repr__(self) -> str:
        value = np.array2string(np.asarray(self.value), threshold=20, precision=6)
        label = f" {self.name!r}" if self.name else ""
        return f"<parameters{label} of shape {self.shape}: {value}>"

    def is_in_place(self) -> bool:
        """True if solves use the memory of `value`."""
        return np.shares_memory(self._memory, self.value)


class DataArray(Array):
    """Numbers that residuals read and that Problem.set replaces: as an array, what residuals read."""

    __slots__ = ("_model", "_number", "_numbers")

    _numbers: np.ndarray
    _model: Any
    _number: int


class Blocks:
    """Residual blocks of one call of Problem.residuals."""

    def __init__(self, problem: "Problem", added: Any, rows: slice) -> None:
        self._problem = problem
        self._added = added
        #: The rows of these blocks among all residuals.
        self.rows = rows

    def set_loss(self, loss: Loss) -> None:
        """Replaces the loss of these blocks; nothing is compiled for another scale."""
        self._problem._model.set_loss(self._added, _core_loss(loss))


class Constraints:
    """Scalar constraints of one call of Problem.equalities or Problem.inequalities."""

    def __init__(self, model: Any, rows: slice) -> None:
        self._model = model
        #: Their numbers among all scalar constraints.
        self.rows = rows


class Problem:
    """½ Σ ρ(‖r‖²) over residual blocks, plus energies, minimised over arrays of unknowns. ::

        p = topograd.Problem()
        x = p.parameters(positions)                                   # (n, 3)
        p.residuals(lambda a, b, length: np.linalg.norm(a - b, axis=1) - length,
                    x[edges[:, 0]], x[edges[:, 1]], lengths)          # a million of these are one kernel
        summary = p.solve()

    Functions are traced once per call, on whole arrays: what they do per row is compiled, and Python
    does nothing per row. Arrays of unknowns are read and written in place where they are contiguous
    float64, and copied otherwise.
    """

    def __init__(self) -> None:
        self._bound = _core.Model()
        self._viewed = False
        self._trace = Trace()
        self._parameters: list[Parameters] = []
        self._data: list[DataArray] = []
        self._count = 0
        self._rows = 0
        self._version = 0
        self._values: dict[Any, tuple[int, Any]] = {}

    @property
    def _model(self) -> Any:
        """The model, which an open view has for itself."""
        if self._viewed:
            raise RuntimeError("the problem is open in a view; close() the view first")
        return self._bound

    def _begin_view(self) -> Any:
        """The model, with the present numbers, for a view that is about to open."""
        model = self._model
        self._read_arrays()
        self._values.clear()
        return model

    def _end_view(self) -> None:
        self._viewed = False
        self._write_arrays()

    # Building.

    def parameters(self, array: Any, block: int | None = None, name: str = "") -> Parameters:
        """Adds unknowns, which start from the numbers of an array.

        Parameters
        ----------
        array : array of shape (n,) or (n, block), also (n, 1), or anything with DLPack's protocol
            float64 arrays that are contiguous are used in place: a solve overwrites them. Others of
            floating-point numbers are copied, and written back after a solve, also into the memory of
            other libraries. Where that is not
            possible (lists, integers, read-only arrays) the result is in `value` alone.
        block : int, optional
            Unknowns that belong together, such as 3 for points. The last extent of an array with two
            axes if not given, else 1; an array of shape (n * block,) becomes (n, block).
        name : str
            Used in messages.

        Returns
        -------
        Parameters of shape (n,) or (n, block); (n, 1) for an array of that shape.
        """
        owner = array
        array = as_numpy(array)
        if array is not owner and not hasattr(owner, "__array__") and hasattr(owner, "__dlpack__"):
            array = _writable(array)
        if array.dtype.kind not in "fiu":
            raise TypeError(f"parameters: expected numbers, got {array.dtype}")
        if array.ndim > 2:
            raise ValueError(f"parameters: expected an array of shape (n,) or (n, block), got {array.shape}; "
                             "reshape what residuals get")
        width = block or (array.shape[-1] if array.ndim > 1 else 1)
        if array.size == 0 or array.size % width:
            raise ValueError(f"parameters: blocks of {width} do not fill an array of {array.size}")
        if array.dtype.kind != "f" or not array.flags.writeable:
            array = np.array(array, float)
        # A copy unless the array is contiguous and of this type.
        memory = np.ascontiguousarray(array, float).reshape(-1)
        number = self._model.add_parameters(memory, width, name)
        # An array of one column stays one: functions that index its second axis work for any width.
        one_column = array.ndim > 1 and array.shape[-1] == 1
        shape = (array.size // width, width) if width > 1 or one_column else (array.size,)
        plain = self._trace.unknowns(self._count, shape)
        added = Parameters(plain._storage, plain._shadow)
        added.value, added._memory, added._number, added.name = array, memory, number, name
        added._owner = owner
        added.places = slice(self._count, self._count + array.size)
        self._parameters.append(added)
        self._count += array.size
        self._version += 1
        return added

    def data(self, values: Any, name: str = "") -> DataArray:
        """Adds numbers that can be replaced after residuals have read them, and by which a solution
        can be differentiated (Sensitivity). Copies.

        Other arrays that residuals read are data, too, but stay as they are.
        """
        array = np.ascontiguousarray(as_numpy(values), float)
        number, first = self._model.add_data(array.reshape(-1), name)
        plain = self._trace.wrap(self._trace.graph.unknowns(first, array.size), array.shape)
        added = DataArray(plain._storage, plain._shadow)
        added._model, added._number = self._model, number
        added._numbers = array.copy()
        self._data.append(added)
        return added

    def set(self, data: DataArray, values: Any) -> None:
        """Replaces the numbers of an array of data(), for residuals that were added before, too. Nothing
        is traced or compiled again."""
        if not isinstance(data, DataArray) or data._model is not self._model:
            raise ValueError("set: expected an array of this problem's data()")
        numbers = np.broadcast_to(np.asarray(values, float), data.shape)
        data._numbers = np.array(numbers)
        self._model.set_data(data._number, np.ascontiguousarray(numbers).reshape(-1))

    def _traced(self, f: Any, arguments: Sequence[Any]) -> Array:
        if not callable(f):
            return self._trace.array(returned(f, f))
        rows = self._trace.array(run_traced(self._trace, f, arguments))
        if rows.size <= _MOST_CHECKED:
            self._check(f, arguments)
        return rows

    def _numbers(self, argument: Any) -> tuple[bool, Any]:
        """Whether an argument is unknowns or data of this problem, and its present numbers. Raises
        ValueError for an expression."""
        if isinstance(argument, DataArray):
            return True, argument._numbers
        if isinstance(argument, Array):
            at = argument.unknowns()
            return True, self.x()[at]
        return False, argument

    def _check(self, f: Callable, arguments: Sequence[Any]) -> None:
        """Compares some rows that f traces with those that it computes from the present numbers.

        Raises TracingError if they differ. What f cannot compute from numbers is not compared.
        """
        try:
            given = [self._numbers(a) for a in arguments]
            with np.errstate(all="ignore"), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                rows = np.asarray(f(*[n.copy() if own else n for own, n in given]), float)
        except Exception:
            return
        trace, first, numbers, traced = Trace(), 0, [np.zeros(0)], []
        for own, value in given:
            if own:
                numbers.append(np.ravel(value))
                traced.append(trace.unknowns(first, value.shape))
                first += value.size
            else:
                traced.append(value)
        flat = rows.reshape(-1)
        some = np.unique(np.linspace(0, flat.size - 1, min(flat.size, _CHECKED)).astype(int))
        if first == 0 or flat.size == 0:
            return
        again = trace.array(run_traced(trace, f, traced)).reshape(-1)
        if again.size != flat.size:
            raise TracingError(f"the function gives {flat.size} rows for numbers, and {again.size} when it "
                               "is traced")
        x = np.concatenate(numbers)
        try:
            got = _core.Values(trace.model(again[some], x, None, False), {"backend": "cpu"},
                               False).residuals(x)
        except _core.Error:  # rows that read no unknown, which adding them refuses
            return
        expected = flat[some]
        scale = np.max(np.abs(expected[np.isfinite(expected)]), initial=0.0)
        finite = np.isfinite(expected)
        far = np.zeros(finite.shape, bool)
        far[finite] = ~(np.abs(got[finite] - expected[finite]) <= 1e-6 * np.abs(expected[finite]) +
                        1e-9 * max(scale, 1.0))
        wrong = np.flatnonzero(far)
        if wrong.size:
            k = int(wrong[0])
            raise TracingError(
                f"row {some[k]} is {got[k]:.9g} when the function is traced, and {expected[k]:.9g} from "
                "numbers: it depends on something that changes from call to call, on the type of its "
                "argument, or on an operation with another meaning")

    def residuals(self, f: Any, *arguments: Any, loss: Loss = None, label: str = "") -> Blocks:
        """Adds residual blocks: one for each element of the first axis of what f returns.

        Parameters
        ----------
        f : callable, or a traced array
            Traced once, with the arguments: selections of parameters such as x[i], shape (m, block),
            and arrays of numbers. Returns rows of shape (m,) or (m, k): m blocks of k rows.
        loss : None, str, (str, float...), callable or (callable, float)
            'huber', 'soft_l1', 'cauchy', 'arctan', 'tukey' or 'tolerant' with its scale, which is
            the size of a residual at which outliers begin: ('huber', 1.5). A callable takes the
            squared norms z of blocks, in units of scale², as an array, and returns ρ(z), or SciPy's
            three rows ρ, ρ' and ρ''. It is traced, and compared with the numbers that it returns;
            ρ is differentiated. The loss is scale² ρ(‖r‖² / scale²), and 1 the scale if none is
            given, as SciPy's f_scale.
        label : str
            Used in messages and reports.

        f is called once more, with the present numbers, and some rows are compared, if there are at
        most 100,000. Raises TracingError if they differ, and for what cannot be traced.
        """
        rows = self._traced(f, arguments)
        width = max(1, math.prod(rows.shape[1:]))
        added = self._add(rows, width, _core.BlockKind.residual, label, loss)
        first = self._rows
        self._rows += rows.size
        return Blocks(self, added, slice(first, self._rows))

    def energies(self, f: Any, *arguments: Any, label: str = "") -> None:
        """Adds energies, which count themselves and not their squares: the elements that f returns,
        shape (m,). Solves then use L-BFGS, or method='newton'."""
        self._add(self._traced(f, arguments), 1, _core.BlockKind.energy, label)

    def equalities(self, f: Any, *arguments: Any, label: str = "") -> Constraints:
        """Requires that every element of what f returns is 0 at the solution: c(x) = 0.

        f and its arguments are those of `residuals`; the elements are scalar constraints, whatever
        their shape. Solves then use the augmented Lagrangian; `Summary.multipliers` has λ of the
        constraints, and the termination 'INFEASIBLE' names one that cannot be met. Constraints are
        no part of `cost`, `evaluate` and their derivatives. `add_equality` is the same.

        Raises TracingError for what cannot be traced, and an Error for an element that reads no
        unknown.
        """
        return self._constrain(f, arguments, _core.BlockKind.equality, label)

    def inequalities(self, f: Any, *arguments: Any, label: str = "") -> Constraints:
        """Requires that no element of what f returns is negative at the solution: c(x) >= 0.

        Otherwise like `equalities`. Points of a solve may violate it, its result may by the option
        constraint_tolerance. Intervals of unknowns are cheaper as `bounds`, which always hold.
        `add_inequality` is the same.
        """
        return self._constrain(f, arguments, _core.BlockKind.inequality, label)

    add_equality = equalities
    add_inequality = inequalities

    def _constrain(self, f: Any, arguments: Sequence[Any], kind: Any, label: str) -> Constraints:
        added = self._add(self._traced(f, arguments), 1, kind, label)
        return Constraints(self._bound, slice(added.first, added.first + added.rows))

    def _add(self, rows: Array, width: int, kind: Any, label: str, loss: Loss = None) -> Any:
        self._version += 1
        return self._trace.graph.add_blocks(
            self._model, rows._whole_node(), width, _core_loss(loss), label, kind)

    # Flags.

    def _unknowns(self, call: str, unknowns: Any) -> np.ndarray:
        """Where these unknowns are in x."""
        if not isinstance(unknowns, Array):
            raise TypeError(f"{call}: expected what parameters() returned, or a selection of it, got "
                            f"{type(unknowns).__name__}")
        if unknowns.tracer is not self._trace:
            raise ValueError(f"{call}: expected unknowns of this problem, got those of another one")
        try:
            return unknowns.unknowns()
        except ValueError as error:
            raise ValueError(f"{call}: {error}") from None

    def _array(self, call: str, x: Any) -> Parameters:
        """An array of parameters() of this problem."""
        if not isinstance(x, Parameters):
            raise TypeError(f"{call}: expected what parameters() returned, got {type(x).__name__}")
        if x.tracer is not self._trace:
            raise ValueError(f"{call}: expected parameters of this problem, got those of another one")
        return x

    def fix(self, unknowns: Array) -> None:
        """Keeps unknowns at their values: x, x[0], x[:, 2], x[indices]."""
        self._model.fix(self._unknowns("fix", unknowns).reshape(-1), True)

    def free(self, unknowns: Array) -> None:
        """Lets fixed unknowns move again."""
        self._model.fix(self._unknowns("free", unknowns).reshape(-1), False)

    def bounds(self, unknowns: Array, lower: Any = -np.inf, upper: Any = np.inf) -> None:
        """Keeps unknowns within bounds, which broadcast to their shape."""
        indices = self._unknowns("bounds", unknowns)
        low, high = (np.broadcast_to(np.asarray(b, float), indices.shape) for b in (lower, upper))
        self._model.set_bounds(
            indices.reshape(-1), np.ascontiguousarray(low).reshape(-1),
            np.ascontiguousarray(high).reshape(-1))

    def manifold(self, x: Parameters, name: str) -> None:
        """Blocks move on a manifold: 'quaternion' (w, x, y, z), 'eigen_quaternion' (x, y, z, w),
        'so3_axis_angle' or 'sphere'."""
        self._model.set_manifold(self._array("manifold", x)._number, name)

    # Solving.

    def solve(self, *, callback: Callable[[Any], Any] | None = None, progress: bool = False,
              **options: Any) -> Summary:
        """Minimises over the unknowns from their present numbers; arrays get the best point.

        Parameters
        ----------
        callback : callable, optional
            Called after each step with an object that has iteration, cost, cost_change,
            gradient_max_norm, step_norm, seconds. A true result or StopIteration ends the solve;
            other exceptions come through, after the best point was written.
        progress : bool
            Shows a progress bar, by tqdm if it is there.
        **options
            Fields of SolverOptions: backend 'automatic', 'cpu' or 'vulkan'; precision 'f64', 'f32'
            or 'mixed'; method, such as 'lm' or 'newton'; linear_solver, such as 'pcg';
            max_iterations, function_tolerance, gradient_tolerance, parameter_tolerance, threads,
            device, deterministic, and the others.

        Ctrl-C ends the solve after its step; the summary's `interrupted` is then true. Other threads
        of Python run meanwhile.
        """
        with progress_bar(progress, callback, options) as called:
            return self._run(lambda: _core.solve(self._model, options, called))

    def solver(self, **options: Any) -> "Solver":
        """A Solver, which keeps its plans and factors from one solve to the next."""
        return Solver(self, options)

    def _read_arrays(self) -> None:
        """Copies arrays that solves do not use in place to where they do."""
        for x in self._parameters:
            if not x.is_in_place():
                x._memory[...] = np.asarray(x.value).reshape(-1)

    def _write_arrays(self) -> None:
        for x in self._parameters:
            if not x.is_in_place():
                x.value[...] = x._memory.reshape(np.shape(x.value))

    def _run(self, solve: Callable[[], Any]) -> Summary:
        model = self._model
        self._read_arrays()
        try:
            return Summary(solve(), model)
        finally:
            self._write_arrays()

    # Values and derivatives.

    def _evaluator(self, losses: bool = True, options: dict | None = None) -> Any:
        key = (losses, tuple(sorted((options or {}).items())))
        known = self._values.get(key)
        if known is None or known[0] != self._version:
            known = (self._version, _core.Values(self._model, options or {}, losses))
            self._values[key] = known
        return known[1]

    def x(self) -> np.ndarray:
        """All unknowns, one array after the other, shape (n,). A copy."""
        if not self._parameters:
            return np.zeros(0)
        return np.concatenate([np.asarray(x.value, float).reshape(-1) for x in self._parameters])

    def cost(self, x: np.ndarray | None = None) -> float:
        """½ Σ ρ(‖r‖²) plus the energies, at x (shape (n,)) or at the present numbers. Rows that read no
        unknown do not count, here and in the costs of a Summary."""
        return self._evaluator().cost(self.x() if x is None else x)

    def evaluate(self, x: np.ndarray | None = None, **options: Any) -> np.ndarray:
        """Residuals without losses, shape (m,), in the order of adding; options: backend,
        precision, threads, device."""
        return self._evaluator(False, options).residuals(self.x() if x is None else x)

    def gradient(self, x: np.ndarray | None = None) -> np.ndarray:
        """The derivative of the cost by all unknowns, shape (n,)."""
        return self._evaluator().gradient(self.x() if x is None else x)

    def jacobian(self, x: np.ndarray | None = None) -> csr_matrix:
        """The derivative of evaluate() by all unknowns, a sparse matrix of shape (m, n)."""
        numbers, columns, starts = self._evaluator(False).jacobian(self.x() if x is None else x)
        return csr_matrix((numbers, columns, starts), shape=(self._rows, self._count))

    def covariance(self, *parameters: Parameters, rank_deficient: bool = False) -> np.ndarray:
        """(JᵀJ)⁻¹ at the present numbers for these arrays, or for all: shape (k, k).

        If residuals are divided by their standard deviations, it is the covariance of the unknowns.
        Unknowns that the residuals do not determine have infinite variances and NaN beside them, and
        a RuntimeWarning names them; it is an error if none of the arrays is determined. With
        rank_deficient=True it is the pseudo-inverse. Small problems only: it is dense.
        """
        numbers = [self._array("covariance", x)._number for x in parameters or self._parameters]
        found, missing = self._model.covariance(numbers, rank_deficient)
        if missing:
            more = f" and {len(missing) - 4} more" if len(missing) > 4 else ""
            warnings.warn("covariance: the residuals do not determine " + ", ".join(missing[:4]) +
                          more, RuntimeWarning, stacklevel=2)
        return found

    def source(self, kernel: str = "gradient", format: str = "glsl", precision: str = "f64",
               topology: str = "") -> str:
        """The source of the kernels 'residual', 'cost', 'gradient', 'jacobian', 'jtjp', 'blocks',
        'jvp', 'vjp', 'hvp' or 'hessian' as 'glsl', 'hlsl', 'msl', 'essl', 'spirv', 'c' or 'ir'."""
        return self._model.source(kernel, format, precision, topology)

    @property
    def sizes(self) -> dict[str, Any]:
        """Numbers of unknowns, rows, blocks, energies and topologies; also 'arrays', with (blocks,
        width) of each array of unknowns, and 'node_by_node', with (rows, operations, unknowns) of
        each call whose rows share their evaluation: they have more than 10,000 different operations,
        so that kernels would take longer to make than to run. 'long_expressions' says of each whether
        it is evaluated as a loop, of how many steps and states, or why not."""
        return self._bound.sizes()

    def explain(self) -> str:
        """How rows that share long computations are evaluated: levels with their instances and
        operations, what is stored between them, memory, and why a chain is no loop. Empty if there are
        none."""
        return self._bound.explain()

    def __reduce__(self) -> Any:
        raise TypeError("a Problem cannot be copied or pickled: it is bound to its arrays and to compiled "
                        "kernels; build it where it is needed, in each process")

    def __repr__(self) -> str:
        sizes = self.sizes
        return (f"<Problem: {sizes['unknowns']} unknowns, {sizes['rows']} rows, "
                f"{sizes['topologies']} topologies>")


class Solver:
    """Solves one Problem repeatedly while its numbers change, and keeps what it made."""

    def __init__(self, problem: Problem, options: dict) -> None:
        self._problem = problem
        self._solver = _core.Solver(problem._model, options)

    def solve(self, callback: Callable[[Any], Any] | None = None) -> Summary:
        """Like Problem.solve, from the present numbers."""
        return self._problem._run(lambda: self._solver.solve(callback))
