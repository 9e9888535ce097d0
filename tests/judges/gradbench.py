#!/usr/bin/env python3
"""A tool for GradBench: its problems ba, gmm, ht, llsq, lstm and ode as programs of Topograd's Python package.

Reads one JSON message a line from standard input and answers each with a line, by the protocol of GradBench: "define"
names a problem, "evaluate" one of its functions and the input. Each timing "evaluate" is one call; "prepare" is the
time that building and compiling the problem took, the first call included.
"""

import json
import sys
import time

import numpy as np

import topograd


class Rows:
    """Residuals and their Jacobian."""

    def objective(self):
        return self.problem.evaluate()

    def jacobian(self):
        return self.problem.jacobian()


class Number:
    """A cost and its gradient."""

    def objective(self):
        return self.problem.cost()

    def jacobian(self):
        return self.problem.gradient()


class Ba(Rows):
    """Bundle adjustment: one camera, point, weight and observation, repeated."""

    functions = ("objective", "jacobian")

    def __init__(self, given):
        n, m, p = given["n"], given["m"], given["p"]
        observations = np.arange(p)
        self.problem = topograd.Problem()
        cameras = self.problem.parameters(np.tile(np.array(given["cam"], float), (n, 1)))
        points = self.problem.parameters(np.tile(np.array(given["x"], float), (m, 1)))
        weights = self.problem.parameters(np.full(p, float(given["w"])))
        features = np.tile(np.array(given["feat"], float), (p, 1))
        self.problem.residuals(self.project, cameras[observations % n], points[observations % m], weights, features)
        self.problem.residuals(lambda w: 1 - w**2, weights)
        self.p = p

    @staticmethod
    def project(camera, point, weight, feature):
        axis, centre, focal, shift, radial = (camera[:, a:b] for a, b in ((0, 3), (3, 6), (6, 7), (7, 9), (9, 11)))
        seen = point - centre
        square = np.sum(axis**2, axis=1)[:, None]
        angle = np.sqrt(np.where(square == 0, 1, square))
        unit = axis / angle
        along = np.sum(unit * seen, axis=1)[:, None]
        turned = seen * np.cos(angle) + np.cross(unit, seen) * np.sin(angle) + unit * along * (1 - np.cos(angle))
        seen = np.where(square == 0, seen + np.cross(axis, seen), turned)
        image = seen[:, :2] / seen[:, 2:]
        square = np.sum(image**2, axis=1)[:, None]
        image = image * (1 + radial[:, :1] * square + radial[:, 1:] * square**2)
        return weight[:, None] * (image * focal + shift - feature)

    def shown(self, function, found):
        if function == "objective":
            return {"reproj_error": {"elements": found[:2].tolist(), "repeated": self.p},
                    "w_err": {"element": float(found[-1]), "repeated": self.p}}
        parts = {"rows": found.indptr, "cols": found.indices, "vals": found.data}
        return {name: [*part[:30].tolist(), part[-1].item()] for name, part in parts.items()}


class Gmm(Number):
    """The logarithm of the posterior probability of a mixture of Gaussians."""

    functions = ("objective", "jacobian")
    names = ("alpha", "mu", "q", "l")

    def __init__(self, given):
        self.d, self.k, self.n = given["d"], given["k"], given["n"]
        self.m, self.gamma = given["m"], given["gamma"]
        self.problem = topograd.Problem()
        starts = [np.array(given[name], float) for name in self.names]
        self.shapes = [start.shape for start in starts]
        # In one dimension nothing is below the diagonal.
        parameters = [self.problem.parameters(start, name=name) if start.size else start
                      for name, start in zip(self.names, starts)]
        self.problem.energies(self.likelihood, *parameters, np.array(given["x"], float))
        self.problem.energies(self.prior, *parameters)

    def factors(self, q, l):
        lower = np.zeros((self.k, self.d, self.d))
        for i in range(self.d):
            lower[:, i, i] = np.exp(q[:, i])
        below = [(i, j) for j in range(self.d) for i in range(j + 1, self.d)]
        for at, (i, j) in enumerate(below):
            lower[:, i, j] = l[:, at]
        return lower

    def likelihood(self, alpha, mu, q, l, x):
        offset = x[:, None, :] - mu
        whitened = np.einsum("kij,nkj->nki", self.factors(q, l), offset)
        beta = alpha + np.sum(q, axis=1) - np.sum(whitened**2, axis=2) / 2
        return logsumexp(beta)

    def prior(self, alpha, mu, q, l):
        from scipy.special import multigammaln

        degrees = self.d + self.m + 1
        constant = degrees * self.d * np.log(self.gamma / np.sqrt(2)) - multigammaln(degrees / 2, self.d)
        squares = np.sum(np.exp(2 * q)) + np.sum(l**2)
        value = self.k * constant - self.gamma**2 / 2 * squares + self.m * np.sum(q)
        return (value - self.n * (self.d / 2 * np.log(2 * np.pi) + logsumexp(alpha)))[None]

    def shown(self, function, found):
        if function == "objective":
            return float(found)
        ends = np.cumsum([int(np.prod(shape)) for shape in self.shapes])
        parts = np.split(found, ends[:-1])
        return {name: part.reshape(shape).tolist() for name, part, shape in zip(self.names, parts, self.shapes)}


def logsumexp(values):
    largest = np.max(values, axis=-1)
    return largest + np.log(np.sum(np.exp(values - largest[..., None]), axis=-1))


class Ht(Rows):
    """Hand tracking: bones pose the vertices of a mesh, which points shall meet. Unknown are the pose, and, where
    there are `us`, each point's place on its triangle."""

    functions = ("objective", "jacobian")

    def __init__(self, given):
        data, model = given["data"], given["data"]["model"]
        self.parents = model["parents"]
        self.relatives = np.array(model["base_relatives"], float)
        self.bases = np.array(model["inverse_base_absolutes"], float)
        self.mirror = np.array([-1.0 if model["is_mirrored"] else 1.0, 1.0, 1.0])
        positions, weights = np.array(model["base_positions"], float), np.array(model["weights"], float)
        places = np.array(data["correspondences"], int)
        points = np.array(data["points"], float)
        us = np.array(given["us"], float).reshape(-1, 2)
        if len(us):
            places = np.array(model["triangles"], int)[places]
        else:
            places = places[:, None]
        self.problem = topograd.Problem()
        self.theta = self.problem.parameters(np.array(given["theta"], float))
        arguments = [positions[places], weights[places], points]
        if len(us):
            arguments.append(self.problem.parameters(us))
        self.problem.residuals(lambda *rest: self.misfits(self.theta, *rest), *arguments)
        self.count, self.has_us = len(points), len(us) > 0

    def transforms(self, theta):
        """What each bone does to points at rest, (bones, 3, 4)."""
        angles = {}
        for finger in range(5):
            first, at = 2 + 4 * finger, 6 + 4 * finger
            angles[first] = theta[at], theta[at + 1]
            angles[first + 1] = theta[at + 2], None
            angles[first + 2] = theta[at + 3], None
        absolutes = []
        for bone, parent in enumerate(self.parents):
            local = self.relatives[bone]
            if bone in angles:
                local = local @ turned(*angles[bone])
            absolutes.append(local if parent < 0 else absolutes[parent] @ local)
        return np.stack([(a @ b)[:3] for a, b in zip(absolutes, self.bases)])

    def misfits(self, theta, positions, weights, points, us=None):
        posed = np.einsum("cvb,bij,cvj->cvi", weights, self.transforms(theta), positions) * self.mirror
        if us is None:
            place = posed[:, 0]
        else:
            place = us[:, :1] * posed[:, 0] + us[:, 1:] * posed[:, 1] + (1 - us[:, :1] - us[:, 1:]) * posed[:, 2]
        return points - (place @ rotation(theta[:3]).T + theta[3:6])

    def shown(self, function, found):
        if function == "objective":
            return found.tolist()
        return self.dense(found).tolist()

    def dense(self, found):
        """The derivatives by the two numbers of each row's own point, and then by the pose."""
        poses = found[:, :26].toarray()
        if not self.has_us:
            return poses
        rows = np.repeat(np.arange(3 * self.count), 2)
        columns = 26 + 2 * (rows // 3) + np.tile([0, 1], 3 * self.count)
        return np.hstack([np.asarray(found[rows, columns]).reshape(-1, 2), poses])


def turned(x, z):
    """A rotation about x, and then about z if there is one, as a 4 x 4 matrix."""
    c, s = np.cos(x), np.sin(x)
    about_x = np.stack([np.stack(row) for row in ((1, 0, 0, 0), (0, c, -s, 0), (0, s, c, 0), (0, 0, 0, 1))])
    if z is None:
        return about_x
    c, s = np.cos(z), np.sin(z)
    return np.stack([np.stack(row) for row in ((c, -s, 0, 0), (s, c, 0, 0), (0, 0, 1, 0), (0, 0, 0, 1))]) @ about_x


def rotation(vector):
    """The matrix of a rotation vector; like GradBench, that of no rotation below an angle of 1e-4."""
    square = np.sum(vector**2)
    angle = np.sqrt(np.where(square < 1e-8, 1, square))
    x, y, z = vector / angle
    cross = np.stack([np.stack(row) for row in ((0, -z, y), (z, 0, -x), (-y, x, 0))])
    return np.where(square < 1e-8, np.eye(3), np.eye(3) + np.sin(angle) * cross + (1 - np.cos(angle)) * cross @ cross)


class Llsq:
    """A polynomial fitted to a step."""

    functions = ("primal", "gradient")

    def __init__(self, given):
        n = given["n"]
        times = -1 + 2 * np.arange(n) / (n - 1)
        self.problem = topograd.Problem()
        coefficients = self.problem.parameters(np.array(given["x"], float))
        powers = times[:, None] ** np.arange(len(given["x"]))
        self.problem.residuals(lambda x: np.sign(times) - powers @ x, coefficients)

    def primal(self):
        return self.problem.cost()

    def gradient(self):
        return self.problem.gradient()

    def shown(self, function, found):
        return float(found) if function == "primal" else found.tolist()


class Lstm(Number):
    """A recurrent network whose matrices are diagonal; the loss of predicting each next character."""

    functions = ("objective", "jacobian")

    def __init__(self, given):
        self.main = np.array(given["main_params"], float)
        self.state = np.array(given["state"], float)
        self.sequence = np.array(given["sequence"], float)
        self.problem = topograd.Problem()
        main = self.problem.parameters(self.main.reshape(-1))
        extra = self.problem.parameters(np.array(given["extra_params"], float).reshape(-1))
        self.problem.energies(self.loss, main, extra)

    def loss(self, main, extra):
        layers, width = len(self.main) // 2, self.sequence.shape[1]
        gates = main.reshape(layers, 2, 4, width)
        into, out, shift = extra.reshape(3, width)
        now, following = self.sequence[:-1], self.sequence[1:]

        def step(k, state):
            hidden, cell, _ = state
            value, hiddens, cells = now[k] * into, [], []
            for layer in range(layers):
                weight, bias = gates[layer]
                forget = sigmoid(value * weight[0] + bias[0])
                enter = sigmoid(hidden[layer] * weight[1] + bias[1])
                leave = sigmoid(value * weight[2] + bias[2])
                change = np.tanh(hidden[layer] * weight[3] + bias[3])
                cells.append(cell[layer] * forget + enter * change)
                value = leave * np.tanh(cells[-1])
                hiddens.append(value)
            guess = value * out + shift
            guess = guess - np.log(2 + np.sum(np.exp(guess)))
            return np.stack(hiddens), np.stack(cells), np.sum(following[k] * guess)

        start = self.state[0::2], self.state[1::2], 0.0
        terms = topograd.scan(len(now), start, step)[2]
        return -np.sum(terms)[None] / (len(now) * width)

    def shown(self, function, found):
        return float(found) if function == "objective" else found.tolist()


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


class Ode:
    """Steps of Runge and Kutta for y0' = x0, y_i' = x_i y_(i - 1); the gradient is that of the last y."""

    functions = ("primal", "gradient")

    def __init__(self, given):
        self.steps = given["s"]
        self.values, self.last = topograd.Problem(), topograd.Problem()
        x = np.array(given["x"], float)
        self.values.residuals(self.final, self.values.parameters(x.copy()))
        self.last.energies(lambda x: self.final(x)[-1:], self.last.parameters(x.copy()))

    def final(self, x):
        h = 2 / self.steps

        def slope(y):
            return np.concatenate([x[:1], x[1:] * y[:-1]])

        def step(k, y):
            k1 = slope(y)
            k2 = slope(y + h / 2 * k1)
            k3 = slope(y + h / 2 * k2)
            k4 = slope(y + h * k3)
            return y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)

        return topograd.scan(self.steps, np.zeros(len(x)), step)[-1]

    def primal(self):
        return self.values.evaluate()

    def gradient(self):
        return self.last.gradient()

    def shown(self, function, found):
        return found.tolist()


PROBLEMS = {"ba": Ba, "gmm": Gmm, "ht": Ht, "llsq": Llsq, "lstm": Lstm, "ode": Ode}


def evaluate(name, function, given):
    """The response to "evaluate", without its id."""
    kind = PROBLEMS.get(name)
    if kind is None or function not in kind.functions:
        names = ", ".join(f"{n} ({', '.join(k.functions)})" for n, k in PROBLEMS.items())
        return {"success": False, "error": f"evaluate: expected one of {names}, got {name} {function}"}
    begin = time.perf_counter_ns()
    call = getattr(problem := kind(given), function)
    found = call()
    timings = [{"name": "prepare", "nanoseconds": time.perf_counter_ns() - begin}]
    runs, spent = 0, 0
    while runs < given.get("min_runs", 1) or spent < given.get("min_seconds", 0) * 1e9:
        begin = time.perf_counter_ns()
        found = call()
        took = time.perf_counter_ns() - begin
        timings.append({"name": "evaluate", "nanoseconds": took})
        runs, spent = runs + 1, spent + took
    return {"success": True, "output": problem.shown(function, found), "timings": timings}


def answer(message):
    kind, response = message["kind"], {"id": message["id"]}
    if kind == "start":
        return {**response, "tool": "topograd", "config": {"version": topograd.__version__}}
    if kind == "define":
        return {**response, "success": message["module"] in PROBLEMS}
    if kind == "evaluate":
        try:
            return {**response, **evaluate(message["module"], message["function"], message["input"])}
        except Exception as error:  # the protocol's way to say it
            return {**response, "success": False, "error": f"{type(error).__name__}: {error}"}
    return response


def main():
    for line in sys.stdin:
        print(json.dumps(answer(json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
