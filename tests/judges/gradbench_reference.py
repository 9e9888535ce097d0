"""Inputs of GradBench's problems, and what their functions are there: values by NumPy, derivatives by complex steps.

`small()` makes inputs, `inputs()` reads those of a checkout of GradBench, `reference()` is the output that a tool has to
give for a small one, and `Peer` asks the programs with derivatives by hand that GradBench's own judges ask.
"""

import itertools
import json
import pathlib
import subprocess
import tempfile

import numpy as np
from scipy import stats
from scipy.linalg import expm


def derivative(f, x):
    """The Jacobian of f at x, shape (rows, unknowns), without differences: Im f(x + i h e) / h."""
    h, columns = 1e-40, []
    for k in range(x.size):
        moved = x.astype(complex)
        moved[k] += 1j * h
        columns.append(np.ravel(f(moved)).imag / h)
    return np.stack(columns, axis=-1)


def crossing(v):
    return np.array([[0, -v[2], v[1]], [v[2], 0, -v[0]], [-v[1], v[0], 0]])


# One function a problem: the inputs in GradBench's JSON to its output.


def ba(function, given):
    n, m, p = given["n"], given["m"], given["p"]

    def rows(unknowns):
        camera, point, weight = unknowns[:11], unknowns[11:14], unknowns[14]
        seen = expm(crossing(camera[:3])) @ (point - camera[3:6])
        image = seen[:2] / seen[2]
        square = image @ image
        image = image * (1 + camera[9] * square + camera[10] * square**2)
        return weight * (camera[6] * image + camera[7:9] - given["feat"])

    at = np.array([*given["cam"], *given["x"], given["w"]])
    if function == "objective":
        return {"reproj_error": {"elements": rows(at).tolist(), "repeated": p},
                "w_err": {"element": 1 - given["w"]**2, "repeated": p}}
    first = [*range(11), *range(11 * n, 11 * n + 3), 11 * n + 3 * m]
    return {"rows": [*range(0, 15 * 30, 15), 31 * p], "cols": [*first, *first, 11 * n + 3 * m + p - 1],
            "vals": [*derivative(rows, at).reshape(-1).tolist(), -2 * given["w"]]}


def gmm(function, given):
    d, k, m, gamma = (given[name] for name in ("d", "k", "m", "gamma"))
    x = np.array(given["x"])
    names = ("alpha", "mu", "q", "l")
    parts = [np.array(given[name], float) for name in names]
    ends = np.cumsum([part.size for part in parts])
    shapes = [part.shape for part in parts]

    def split(unknowns):
        return [part.reshape(shape) for part, shape in zip(np.split(unknowns, ends[:-1]), shapes)]

    def factors(q, l):
        for of_q, of_l in zip(q, l):
            lower = np.diag(np.exp(of_q))
            lower.T[np.triu_indices(d, 1)] = of_l
            yield lower

    def value(unknowns):
        alpha, mu, q, l = split(unknowns)
        total = 0
        lowers = list(factors(q, l))
        for row in x:
            terms = [np.exp(alpha[j]) * np.linalg.det(lowers[j]) *
                     np.exp(-np.sum((lowers[j] @ (row - mu[j]))**2) / 2) for j in range(k)]
            total = total + np.log(sum(terms) / np.sum(np.exp(alpha)))
        for lower in lowers:
            total = total + m * np.log(np.linalg.det(lower)) - gamma**2 / 2 * np.sum(lower**2)
        return total

    at = np.concatenate([part.reshape(-1) for part in parts])
    if function == "jacobian":
        return {name: part.tolist() for name, part in zip(names, split(derivative(value, at)[0]))}
    alpha, mu, q, l = parts
    precisions = [lower.T @ lower for lower in factors(q, l)]
    shares = np.exp(alpha) / np.sum(np.exp(alpha))
    densities = sum(share * stats.multivariate_normal(mean, np.linalg.inv(precision)).pdf(x)
                    for share, mean, precision in zip(shares, mu, precisions))
    # The density of the determinant's power alone, as GradBench has it.
    return float(np.sum(np.log(densities)) +
                 sum(stats.wishart(d + m + 1, np.eye(d) / gamma**2).logpdf(precision) for precision in precisions))


def ht(function, given):
    data, model = given["data"], given["data"]["model"]
    positions, weights = np.array(model["base_positions"]), np.array(model["weights"])
    us = np.array(given["us"]).reshape(-1, 2)
    axis = np.eye(3)

    def bone(theta, number):
        finger, joint = divmod(number - 2, 4)
        turn = np.eye(4, dtype=theta.dtype)
        if 0 <= finger < 5 and joint < 3:
            at = 6 + 4 * finger
            turn[:3, :3] = expm(theta[at + (0, 2, 3)[joint]] * crossing(axis[0]))
            if joint == 0:
                turn[:3, :3] = expm(theta[at + 1] * crossing(axis[2])) @ turn[:3, :3]
        return np.array(model["base_relatives"][number]) @ turn

    def vertices(theta):
        absolutes, posed = [], 0
        for number, parent in enumerate(model["parents"]):
            own = bone(theta, number)
            absolutes.append(own if parent < 0 else absolutes[parent] @ own)
            moved = absolutes[-1] @ np.array(model["inverse_base_absolutes"][number]) @ positions.T
            posed = posed + weights[:, number] * moved[:3]
        if model["is_mirrored"]:
            posed = posed * np.array([[-1], [1], [1]])
        return (expm(crossing(theta[:3])) @ posed).T + theta[3:6]

    def rows(unknowns):
        found, (theta, places) = vertices(unknowns[:26]), (unknowns[:26], unknowns[26:].reshape(-1, 2))
        out = []
        for k, (place, point) in enumerate(zip(data["correspondences"], data["points"])):
            if len(us):
                a, b, c = found[model["triangles"][place]]
                u, v = places[k]
                out.append(point - (u * a + v * b + (1 - u - v) * c))
            else:
                out.append(point - found[place])
        return np.concatenate(out)

    at = np.concatenate([given["theta"], us.reshape(-1)])
    if function == "objective":
        return rows(at).tolist()
    found = derivative(rows, at)
    own = [found[row, 26 + 2 * (row // 3):28 + 2 * (row // 3)] for row in range(len(found))]
    return np.hstack([np.array(own), found[:, :26]]).tolist() if len(us) else found.tolist()


def llsq(function, given):
    x, n = np.array(given["x"]), given["n"]
    t = -1 + 2 * np.arange(n) / (n - 1)
    powers = np.vander(t, len(x), increasing=True)
    rows = powers @ x - np.sign(t)
    return float(rows @ rows / 2) if function == "primal" else (powers.T @ rows).tolist()


def lstm(function, given):
    main, extra = np.array(given["main_params"]), np.array(given["extra_params"])
    sequence, width = np.array(given["sequence"], float), main.shape[1] // 4

    def sigmoid(x):
        return 1 / (1 + np.exp(-x))

    def value(unknowns):
        into, out, shift = unknowns[main.size:].reshape(3, width)
        layers = unknowns[:main.size].reshape(-1, 2, 4, width)
        hidden, cell = list(np.array(given["state"])[0::2]), list(np.array(given["state"])[1::2])
        total = 0
        for now, following in itertools.pairwise(sequence):
            signal = now * into
            for k, (weight, bias) in enumerate(layers):
                inputs = signal, hidden[k], signal, hidden[k]
                forget, enter, leave, change = (w * s + b for w, s, b in zip(weight, inputs, bias))
                cell[k] = cell[k] * sigmoid(forget) + sigmoid(enter) * np.tanh(change)
                signal = hidden[k] = sigmoid(leave) * np.tanh(cell[k])
            guess = signal * out + shift
            total = total + following @ (guess - np.log(np.sum(np.exp(guess)) + 2))
        return -total / (width * (len(sequence) - 1))

    at = np.concatenate([main.reshape(-1), extra.reshape(-1)])
    return float(value(at)) if function == "objective" else derivative(value, at)[0].tolist()


def ode(function, given):
    steps = given["s"]

    def slope(x, y):
        return np.array([x[0], *(x[i] * y[i - 1] for i in range(1, len(x)))])

    def final(x):
        y, h = np.zeros(len(x), x.dtype), 2 / steps
        for _ in range(steps):
            a = slope(x, y)
            b = slope(x, y + h / 2 * a)
            c = slope(x, y + h / 2 * b)
            y = y + h / 6 * (a + 2 * b + 2 * c + slope(x, y + h * c))
        return y

    at = np.array(given["x"])
    return final(at).tolist() if function == "primal" else derivative(final, at)[-1].tolist()


REFERENCES = {"ba": ba, "gmm": gmm, "ht": ht, "llsq": llsq, "lstm": lstm, "ode": ode}
FUNCTIONS = {name: ("primal", "gradient") if name in ("llsq", "ode") else ("objective", "jacobian")
             for name in REFERENCES}


def reference(name, function, given):
    return REFERENCES[name](function, given)


# Inputs.


def some(rng, *shape):
    return rng.normal(size=shape).tolist()


def a_hand(rng, us, mirrored):
    vertices, points = 7, 6
    weights = rng.random((vertices, 22))
    model = {"bone_count": 22, "bone_names": [f"bone{k}" for k in range(22)],
             "parents": [-1, *(0 if k % 4 == 1 else k - 1 for k in range(1, 22))],
             "base_relatives": (np.eye(4) + 0.1 * rng.normal(size=(22, 4, 4)) * [[1], [1], [1], [0]]).tolist(),
             "inverse_base_absolutes": (np.eye(4) + 0.1 * rng.normal(size=(22, 4, 4)) * [[1], [1], [1], [0]]).tolist(),
             "base_positions": np.hstack([rng.normal(size=(vertices, 3)), np.ones((vertices, 1))]).tolist(),
             "weights": (weights / weights.sum(axis=1, keepdims=True)).tolist(),
             "triangles": rng.integers(0, vertices, (5, 3)).tolist(), "is_mirrored": mirrored}
    return {"theta": some(rng, 26), "us": some(rng, points, 2) if us else [],
            "data": {"model": model, "points": some(rng, points, 3),
                     "correspondences": rng.integers(0, 5, points).tolist()}}


def mixture(rng, d, k, n, m=0, gamma=1.0):
    return {"d": d, "k": k, "n": n, "x": some(rng, n, d), "m": m, "gamma": gamma, "alpha": some(rng, k),
            "mu": rng.random((k, d)).tolist(), "q": some(rng, k, d), "l": some(rng, k, d * (d - 1) // 2)}


def network(rng, layers, sequence):
    width = len(sequence[0])
    return {"main_params": rng.random((2 * layers, 4 * width)).tolist(), "state": rng.random((2 * layers, width)).tolist(),
            "extra_params": rng.random((3, width)).tolist(), "sequence": sequence}


def small():
    """(problem, what it is, input), each solved by the references in milliseconds."""
    rng = np.random.default_rng(7)
    camera = [0.2, -0.4, 0.3, 0.1, 0.2, -5, 800, 300, 200, 0.02, -0.003]
    seen = {"n": 3, "m": 4, "p": 17, "x": [0.3, -0.2, 1], "w": 0.7, "feat": [310, 190]}
    yield "ba", "3 cameras", {**seen, "cam": camera}
    yield "ba", "cameras that are not turned", {**seen, "cam": [0, 0, 0, *camera[3:]]}
    for d, k, n, m, gamma in ((1, 2, 5, 0, 1.0), (2, 3, 9, 2, 1.3), (4, 2, 7, 1, 0.6)):
        yield "gmm", f"d={d},k={k},n={n}", mixture(rng, d, k, n, m, gamma)
    for us, mirrored in ((False, True), (True, False)):
        yield "ht", "on triangles" if us else "on vertices", a_hand(rng, us, mirrored)
    for n, m in ((2, 1), (7, 4), (99, 12)):
        yield "llsq", f"n={n},m={m}", {"x": some(rng, m), "n": n}
    for layers, steps in ((1, 2), (3, 12)):
        yield "lstm", f"l={layers},c={steps}", network(rng, layers, rng.integers(0, 2, (steps, 5)).tolist())
    for n, s in ((1, 3), (2, 1), (13, 8)):
        yield "ode", f"n={n},s={s}", {"x": rng.random(n).tolist(), "s": s}


def hand_of(path, model_folder, us):
    """GradBench's input of hand tracking from a file and the folder of its model."""
    bones = [line.split(":") for line in (model_folder / "bones.txt").read_text().splitlines()]
    vertices = [line.split(":") for line in (model_folder / "vertices.txt").read_text().splitlines()]
    triangles = [line.split(":") for line in (model_folder / "triangles.txt").read_text().splitlines()]
    weights = np.zeros((len(vertices), len(bones)))
    for vertex, words in enumerate(vertices):
        for at in range(9, 9 + 2 * int(words[8]), 2):
            weights[vertex, int(words[at])] = float(words[at + 1])
    model = {"bone_count": len(bones), "bone_names": [words[0] for words in bones],
             "parents": [int(words[1]) for words in bones],
             "base_relatives": np.array([words[2:18] for words in bones], float).reshape(-1, 4, 4).tolist(),
             "inverse_base_absolutes": np.array([words[18:34] for words in bones], float).reshape(-1, 4, 4).tolist(),
             "base_positions": [[*map(float, words[:3]), 1.0] for words in vertices], "weights": weights.tolist(),
             "triangles": [[int(word) for word in words] for words in triangles], "is_mirrored": False}
    lines = [line.split() for line in path.read_text().splitlines() if line.strip()]
    count, angles = int(lines[0][0]), int(lines[0][1])
    points, rest = lines[1:1 + count], lines[1 + count:]
    own, rest = (rest[:count], rest[count:]) if us else ([], rest)
    return {"theta": [float(words[0]) for words in rest[:angles]], "us": [[float(word) for word in words] for words in own],
            "data": {"model": model, "correspondences": [int(words[0]) for words in points],
                     "points": [[float(word) for word in words[1:]] for words in points]}}


def characters(text):
    codes = np.frombuffer(text.encode("latin-1", "replace"), np.uint8)
    bits = int(np.ceil(np.log2(codes.max())))
    return [[(int(code) >> bit) & 1 for bit in reversed(range(bits))] for code in codes]


def inputs(folder, count):
    """The first `count` inputs of each problem, from the smallest on, of a checkout of GradBench."""
    rng, evals = np.random.default_rng(31337), pathlib.Path(folder, "evals")

    def number(path):
        return int("".join(itertools.takewhile(str.isdigit, path.name.lstrip("bahnd"))))

    for path in sorted((evals / "ba" / "data").glob("ba*.txt"), key=number)[:count]:
        sizes, camera, point, weight, feature = ([float(word) for word in line.split()]
                                                 for line in path.read_text().splitlines()[:5])
        n, m, p = (int(size) for size in sizes)
        yield "ba", path.stem, {"n": n, "m": m, "p": p, "cam": camera, "x": point, "w": weight[0], "feat": feature}
    for d, k in sorted(itertools.product((2, 10, 20, 32, 64), (5, 10, 25, 50, 100)), key=np.prod)[:count]:
        yield "gmm", f"d={d},k={k},n=1000", mixture(rng, d, k, 1000)
    for kind in ("simple_small", "simple_big", "complicated_small", "complicated_big"):
        of_kind = evals / "ht" / "data" / kind
        for path in sorted(of_kind.glob("hand*.txt"), key=number)[:count]:
            yield "ht", f"{kind}/{path.stem}", hand_of(path, of_kind / "model", kind.startswith("complicated"))
    for n in [16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8196, 16392][:count]:
        yield "llsq", f"n={n},m=128", {"x": rng.random(128).tolist(), "n": n}
    text = evals / "lstm" / "data" / "lstm_full.txt"
    if text.is_file():
        words = characters(text.read_text(encoding="utf-8")[:8192])
        for layers, steps in sorted(itertools.product((2, 4, 6), (1024, 4096, 8192)), key=np.prod)[:count]:
            yield "lstm", f"l={layers},c={steps}", network(rng, layers, words[:steps])
    for n, s in sorted(itertools.product((1000, 10000, 100000), (1, 10, 100)), key=np.prod)[:count]:
        yield "ode", f"n={n},s={s}", {"x": rng.random(n).tolist(), "s": s}


class Peer:
    """GradBench's programs with derivatives by hand, in C++, built from a checkout."""

    def __init__(self, folder, place):
        self.folder, self.place = pathlib.Path(folder), pathlib.Path(place)

    def __call__(self, name, function, given):
        """The output, and the times of the runs in ns."""
        program = self.place / name
        if not program.exists():
            source = self.folder / "tools" / "manual"
            command = ["g++", "-std=c++17", "-O3", "-march=native", "-w", f"-I{self.folder / 'cpp'}",
                       "-I/usr/include/nlohmann", str(source / f"{name}.cpp"), "-o", str(program)]
            subprocess.run(command, check=True)
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            json.dump(given, file)
            file.flush()
            lines = subprocess.run([str(program), file.name, function], check=True, capture_output=True,
                                   text=True).stdout.splitlines()
        timings = [json.loads(line) for line in lines[1:]]
        return json.loads(lines[0]), [time["nanoseconds"] for time in timings if time["name"] == "evaluate"]
