// Compares each kernel of single precision with float64, in a page. A kernel runs alone; what it should
// have left is computed in float64 from what it read, by the module's JavaScript where that has it.

/** Rounding to nearest in float32. */
const unit = 2 ** -24;
/** How far the rounding of a kernel may exceed that of its inputs. */
const rounding = 32;
const jitters = 8;

/** Numbers from -1 to 1 that are the same in each run. */
function* numbers() {
  for (let seed = 1;; seed = (1664525 * seed + 1013904223) % 2 ** 32) yield seed / 2 ** 31 - 1;
}
const random = numbers(), next = () => random.next().value;

/** What kernels have left, and should have left. */
class Report {
  kernels = {};

  /** @param bound of the difference, by number */
  add(kernel, got, expected, bound) {
    const found = this.kernels[kernel] ??= { count: 0, worst: 0 };
    if (got.length !== expected.length) throw new Error(`${kernel}: ${got.length} numbers, ${expected.length}`);
    for (let k = 0; k < got.length; ++k) {
      const distance = Math.abs(got[k] - expected[k]), share = distance === 0 ? 0 : distance / bound[k];
      found.count += 1;
      if (share <= found.worst) continue;  // not if it is NaN
      // Infinity does not come through the browser's protocol.
      Object.assign(found, { worst: Number.isFinite(share) ? share : Number.MAX_VALUE, got: got[k], expected: expected[k],
                             bound: bound[k], at: k });
    }
  }

  /** @param share of the number that rounding may change, in units of rounding */
  addRounded(kernel, got, expected, share = 4) {
    this.add(kernel, got, expected, expected.map((value) => share * unit * Math.abs(value)));
  }
}

/** Runs kernels of a system alone, and reads its buffers. */
class Bench {
  constructor(system) {
    this.system = system;
    this.model = system.model;
    this.at = system.plan.at;
    this.jacobian = system.other;
  }

  async read(buffer, at, length, Kind = Float32Array) {
    const { gpu } = this.system.device, size = Math.max(4, 4 * length);
    const to = gpu.createBuffer({ size, usage: GPUBufferUsage.MAP_READ | GPUBufferUsage.COPY_DST });
    const commands = gpu.createCommandEncoder();
    commands.copyBufferToBuffer(buffer, 4 * at, to, 0, size);
    gpu.queue.submit([commands.finish()]);
    await to.mapAsync(GPUMapMode.READ);
    const out = Array.from(new Kind(to.getMappedRange(), 0, length));
    to.destroy();
    return out;
  }
  write(buffer, at, values) {
    this.system.device.gpu.queue.writeBuffer(buffer, 4 * at, Float32Array.from(values));
  }
  point(name, length) { return this.read(this.system.point, this.at[name], length); }
  tail(name) { return this.read(this.jacobian, this.at[name], this.model.m); }
  vector(name) { return this.read(this.system.vec, this.at[name], this.model.m); }
  raw(at, length) { return this.read(this.system.raw, at, length); }
  scalars() { return this.read(this.system.scalars, 0, 64); }
  /** The sum of what workgroups have left, or the largest of it. */
  async tally(slot, largest = false) {
    const { TALLY, TALLIES } = this.at;
    const parts = await this.read(this.system.scalars, TALLY + slot * TALLIES, this.system.groups);
    return parts.reduce((all, value) => largest ? Math.max(all, value) : all + value, 0);
  }

  /** Runs one kernel of steps or equations. */
  run(name, groups = this.at.GROUPS) {
    return this.encode((pass) => {
      pass.setBindGroup(0, this.system.sets[1]);
      this.system.dispatch(pass, name, groups);
    });
  }
  step(name) { return this.run(name, this.system.groups); }
  encode(use) {
    const { gpu } = this.system.device, commands = gpu.createCommandEncoder(), pass = commands.beginComputePass();
    use(pass);
    pass.end();
    gpu.queue.submit([commands.finish()]);
  }

  /** J and rows of the device replace those of the model, term by term. */
  async take(residuals) {
    const { lists } = this.model, { plan } = this.system;
    for (let t = 0; t < lists.length; ++t) {
      const { rows, instances, width, jacobian } = lists[t], { entries, first } = plan.terms[t], all = rows * instances;
      const found = await this.read(this.jacobian, entries, all * width);
      for (let row = 0; row < all; ++row)
        for (let c = 0; c < width; ++c) jacobian[row * width + c] = found[c * all + row];
      if (residuals) lists[t].residuals.set(await this.read(this.system.vec, this.at.T + first, all));
    }
  }

  /** What a function of the model's J and rows makes of their absolute values. */
  absolute(use, change = Math.abs) {
    const { model } = this, { lists } = model;
    model.lists = lists.map((list) => ({ ...list, residuals: list.residuals.map(change), jacobian: list.jacobian.map(change) }));
    const out = use();
    model.lists = lists;
    return out;
  }

  /** Numbers that a function has of the point, and what rounding of all inputs changes in them. */
  spread(x, evaluate) {
    const { model } = this, { terms, uniforms } = model, exact = terms.map((term) => term.numbers);
    const jitter = (value) => value * (1 + (next() < 0 ? -unit : unit));
    const expected = evaluate(x), change = expected.map(() => 0);
    for (let k = 0; k < jitters; ++k) {
      terms.forEach((term, t) => { term.numbers = exact[t].map(jitter); });
      model.uniforms = uniforms.map(jitter);
      evaluate(x.map(jitter)).forEach((value, at) => { change[at] = Math.max(change[at], Math.abs(value - expected[at])); });
    }
    terms.forEach((term, t) => { term.numbers = exact[t]; });
    model.uniforms = uniforms;
    // Sums that cancel round as their parts do: the largest of the numbers stands for these.
    const largest = expected.reduce((most, value) => Math.max(most, Math.abs(value)), 0);
    return { expected, bound: change.map((value) => rounding * Math.max(value, unit * largest / 8)) };
  }
}

const sum = (values) => values.reduce((all, value) => all + value, 0);
const magnitude = (values) => values.reduce((all, value) => all + Math.abs(value), 0);

/** The inverse of a symmetric positive definite matrix, by Gauss and Jordan. */
function inverseOf(matrix, n) {
  const a = matrix.slice(), out = a.map((_, k) => k % (n + 1) === 0 ? 1 : 0);
  for (let k = 0; k < n; ++k) {
    const pivot = a[k * n + k];
    for (let c = 0; c < n; ++c) {
      a[k * n + c] /= pivot;
      out[k * n + c] /= pivot;
    }
    for (let r = 0; r < n; ++r) {
      const factor = a[r * n + k];
      for (let c = 0; c < n && r !== k; ++c) {
        a[r * n + c] -= factor * a[k * n + c];
        out[r * n + c] -= factor * out[k * n + c];
      }
    }
  }
  return out;
}

/** Chooses a point, a direction and held columns, and gives them to the device. */
async function begin(bench, x) {
  const { model, at, system } = bench, { n, m } = model;
  const delta = new Float64Array(m + 1), along = new Float64Array(n), held = new Uint8Array(m);
  for (let c = 0; c < m; ++c) {
    const k = model.scalarOf[c];
    delta[c] = Math.fround(0.02 * next() * Math.max(0.1, Math.abs(k >= 0 ? x[k] : 1)));
    held[c] = c % 7 === 5 ? 1 : 0;
    if (k >= 0) along[k] = delta[c];
  }
  for (const { at: first, manifold, column } of model.moved)
    for (let t = 0; t < manifold.tangent; ++t) along[first + t] = delta[column + t];
  for (const term of model.terms) term.numbers = term.numbers.map(Math.fround);
  model.uniforms = model.uniforms.map(Math.fround);
  if (model.bounds !== undefined) {
    const { lower, upper } = model.bounds;
    model.bounds = { lower: lower.map(Math.fround), upper: upper.map(Math.fround) };
    // Some steps lead beyond a bound.
    for (let c = 0; c < m; c += 4) {
      const k = model.scalarOf[c];
      if (k >= 0 && Number.isFinite(model.bounds.lower[k])) along[k] = delta[c] = Math.fround(2 * (model.bounds.lower[k] - x[k]) - 1);
    }
  }
  system.upload(x, held);
  bench.write(system.point, at.DIRECTION, along);
  return { delta, along, held };
}

/** The kernels of manifolds, the trial point, and those of the residuals. Returns the trial point. */
async function checkProblem(bench, report, x, delta) {
  const { model, at, system } = bench, { n } = model;
  bench.encode((pass) => system.dispatchKernels(pass, system.moves));
  bench.step("advance");
  const moved = bench.spread(x, (point) => {
    const to = new Float64Array(n);
    model.plus(point, delta, 1, to);
    return to;
  });
  const trial = Float64Array.from(await bench.point("TRIAL", n));
  const pick = (values, scalars) => scalars.map((k) => values[k]);
  for (const { name, indices, results, count } of system.moves) {
    const width = model.moved[0].manifold.width;
    const scalars = (await bench.read(system.words, indices, width * count, Uint32Array));
    report.add(name, await bench.raw(results, width * count), pick(moved.expected, scalars), pick(moved.bound, scalars));
  }
  report.add("advance", trial, moved.expected, moved.bound);

  bench.encode((pass) => {
    system.dispatchKernels(pass, system.bases);
    system.dispatchKernels(pass, system.kernels);
  });
  const bases = bench.spread(trial, (point) => {
    model.moveBases(point);
    return model.bases.slice();
  });
  for (const { name, count, results } of system.bases) {
    const blocks = model.moved.filter(({ manifold }) => manifold.basis.name === name);
    const { width, tangent } = blocks[0].manifold, found = await bench.raw(results, width * width * count);
    blocks.forEach(({ basis }, i) => {
      for (let k = 0; k < width * tangent; ++k) {
        const to = Math.floor(k / tangent) * width + k % tangent;
        report.add(name, [found[to * count + i]], [bases.expected[basis + to]], [bases.bound[basis + to]]);
      }
    });
  }
  let kernel = 0;
  for (const term of model.terms) {
    for (const [key, outputs] of [["jacobian", term.rows * (1 + term.parameters)], ["cost", 1]]) {
      if (term.shaders[key] === undefined) continue;
      const { name, results, count } = system.kernels[kernel++];
      const { expected, bound } = bench.spread(trial, (point) => {
        const all = new Float64Array(outputs * count);
        model.each({ ...term }, point, term[key], outputs,
                   (out, i) => out.forEach((value, k) => { all[k * count + i] = value; }));
        return all;
      });
      report.add(name, await bench.raw(results, outputs * count), expected, bound);
    }
  }
  return trial;
}

/** Rows, J and costs as steps have them. */
async function checkRows(bench, report, trial) {
  const { model, at, system } = bench, instances = sum(model.terms.map((term) => term.instances));
  const before = Array.from({ length: instances }, () => Math.fround(next()));
  bench.write(system.point, at.COSTS, before);
  bench.step("collect");
  const { expected, bound } = bench.spread(trial, (point) => {
    model.linearize(point);
    return Float64Array.from(model.lists.flatMap(({ residuals, jacobian }) => [...residuals, ...jacobian]));
  });
  await bench.take(true);
  report.add("collect", model.lists.flatMap(({ residuals, jacobian }) => [...residuals, ...jacobian]), expected, bound);
  const costs = bench.spread(trial, (point) => {
    const all = [];
    for (const term of model.terms) model.each(term, point, term.cost, 1, (out) => all.push(out[0]));
    return Float64Array.from(all);
  });
  const after = await bench.point("NEWCOSTS", instances), change = before.map((value, i) => value - after[i]);
  report.add("collect", after, costs.expected, costs.bound);
  const most = (instances + 4) * unit;
  report.add("collect", [await bench.tally(2), await bench.tally(3)], [sum(after), sum(change)],
             [most * magnitude(after), most * magnitude(change)]);
}

/** The gradient, norms of columns, what is held, and sums for the rules. */
async function checkGradient(bench, report, trial, along, pinned) {
  const { model, at, system } = bench, { m } = model;
  bench.step("gradient");
  const gradients = () => {
    const g = new Float64Array(m), squares = new Float64Array(m);
    model.gradient(g, squares);
    return [...g, ...squares];
  };
  const counts = bench.absolute(gradients, () => 1), sizes = bench.absolute(gradients);
  const g = await bench.tail("GRADIENT"), squares = await bench.tail("SQUARE");
  report.add("gradient", [...g, ...squares], gradients(), sizes.map((size, k) => (counts[k] + 4) * unit * size));
  const scale = await bench.tail("SCALE");
  report.addRounded("gradient", scale, squares.map((square) => square > 0 ? 1 / Math.sqrt(square) : 1), 8);
  const scalars = await bench.read(system.words, at.SCALAR, m, Uint32Array);
  const open = [], steps = [];
  const sums = { square: 0, x: 0, step: 0, most: 0, scaled: 0, norm: 0 };
  for (let c = 0; c < m; ++c) {
    const k = scalars[c] % 2 ** 31, held = pinned[c] !== 0 || model.isActive(c, trial, g);
    let change = pinned[c] !== 0 ? 0 : g[c];
    if (model.bounds !== undefined && model.scalarOf[c] >= 0)
      change = Math.min(Math.max(change, trial[k] - model.bounds.upper[k]), trial[k] - model.bounds.lower[k]);
    open.push(held ? 0 : 1);
    steps.push(squares[c] * along[k] ** 2);
    sums.square += change ** 2;
    sums.x += squares[c] * trial[k] ** 2;
    sums.step += squares[c] * along[k] ** 2;
    sums.most = Math.max(sums.most, Math.abs(change));
    if (!held) sums.scaled = Math.max(sums.scaled, Math.abs(g[c]) * scale[c]);
    sums.norm = Math.max(sums.norm, 1 / scale[c]);
  }
  report.add("gradient", await bench.tail("OPEN"), open, open.map(() => 0));
  const got = [await bench.tally(4), await bench.tally(5), await bench.tally(6), await bench.tally(8, true),
               await bench.tally(9, true), await bench.tally(10, true)];
  report.addRounded("gradient", got, Object.values(sums), m + 8);

  bench.step("scale");
  const expected = model.lists.flatMap(({ rows, width, columns, jacobian }) => [...jacobian].map((value, j) =>
    value * (scale[columns[Math.floor(j / (rows * width)) * width + j % width]] ?? 0)));
  await bench.take(false);
  const got2 = model.lists.flatMap(({ rows, width, columns, jacobian }) => [...jacobian].map((value, j) =>
    columns[Math.floor(j / (rows * width)) * width + j % width] < m ? value : 0));
  report.addRounded("scale", got2, expected);
}

/** The damping, and the preconditioner. */
async function checkBlocks(bench, report, Iteration) {
  const { model, at, system } = bench, { m } = model;
  const first = Array.from({ length: m }, (_, c) => c % 3 === 0 ? 0 : Math.fround(1 + next() / 2));
  const lambda = Math.fround(0.1), least = Math.fround(1e-6), largest = 1e32, norm = 2;
  bench.write(system.point, at.JACOBI, first);
  bench.write(system.request, 0, [1e-6, 0, 100, 1, lambda, least, largest, 0.5, norm]);
  bench.step("damp");
  const s = await bench.tail("SCALE"), squares = await bench.tail("SQUARE"), open = await bench.tail("OPEN");
  const g = await bench.tail("GRADIENT"), jacobi = await bench.point("JACOBI", m);
  report.addRounded("damp", jacobi, first.map((value, c) => value > 0 ? value : squares[c] > 0 ? s[c] : 0), 0);
  const d = await bench.vector("D");
  report.addRounded("damp", d, s.map((scale, c) => jacobi[c] > 0
    ? lambda * Math.min(Math.max(jacobi[c] ** 2 * squares[c], least), largest) / jacobi[c] ** 2 * scale ** 2 : lambda), 16);
  report.addRounded("damp", await bench.vector("B"), g.map((value, c) => -value * s[c] * open[c]));
  report.addRounded("damp", await bench.vector("FREE"), open, 0);
  report.addRounded("damp", await bench.vector("WEIGHT"), s.map((scale) => 1 / (scale * norm)), 8);

  bench.run("blocks");
  const squareSums = () => {
    const iteration = new Iteration(model);
    iteration.assemble();
    return [...iteration.blocks];
  };
  const expected = squareSums(), counts = bench.absolute(squareSums, () => 1), sizes = bench.absolute(squareSums);
  const got = await bench.read(system.vec, at.BLOCK, expected.length);
  report.add("blocks", got, expected, sizes.map((size, k) => (counts[k] + 4) * unit * size));

  bench.run("invert");
  const inverses = await bench.read(system.vec, at.INVERSE, expected.length), { width, at: places } = new Iteration(model);
  for (let c = 0; c < m; c += width[c]) {
    const w = width[c], from = places[c], free = Array.from({ length: w * w }, (_, k) =>
      open[c + Math.floor(k / w)] * open[c + k % w]);
    const scales = Array.from({ length: w }, (_, k) =>
      open[c + k] !== 0 ? 1 / Math.sqrt(got[from + k * w + k] + d[c + k]) : 1);
    const both = (k) => scales[Math.floor(k / w)] * scales[k % w];
    const block = free.map((flag, k) => k % (w + 1) === 0 ? 1 : flag * got[from + k] * both(k));
    const inverse = inverseOf(block, w), condition = magnitude(block) * magnitude(inverse);
    report.add("invert", inverses.slice(from, from + w * w), inverse.map((value, k) => value * both(k)),
               inverse.map((_, k) => 4 * w * unit * condition * magnitude(inverse) * both(k)));
  }
}

/** Conjugate gradients, kernel by kernel. */
async function checkIteration(bench, report, Iteration, state) {
  const { model, at, system } = bench, { m } = model, iteration = new Iteration(model);
  const inverses = await bench.read(system.vec, at.INVERSE, iteration.blocks.length);
  const b = await bench.vector("B"), free = await bench.vector("FREE"), d = await bench.vector("D");
  const weight = await bench.vector("WEIGHT");
  /** M⁻¹ r, and what bounds its rounding. */
  const preconditioned = (r, change = (value) => value) => r.map((_, c) => {
    const w = iteration.width[c], first = iteration.first[c], from = iteration.at[c] + (c - first) * w;
    let all = 0;
    for (let k = 0; k < w; ++k) all += change(inverses[from + k]) * change(r[first + k]);
    return all * free[c];
  });
  const product = (a, other) => a.map((value, c) => value * other[c]);
  const bounded = (values, share) => values.map((value) => share * unit * Math.abs(value));
  const wide = 4 + Math.max(...iteration.width);
  const all = m + 8;  // of a sum over columns

  bench.run("begin");
  let r = await bench.vector("R"), z = await bench.vector("Z");
  report.addRounded("begin", r, product(b, free), 0);
  report.add("begin", z, preconditioned(r), bounded(preconditioned(r, Math.abs), wide));
  report.addRounded("begin", [...await bench.vector("X"), ...await bench.vector("P")], new Array(2 * m).fill(0), 0);
  bench.run("judge", 1);
  let now = await bench.scalars();
  const size = (values) => magnitude(values) * all * unit;
  const weighted = (values) => product(values, weight).map((value) => value * value);
  /** The sums and decisions of judge, after so many iterations; `rz` was before the last one. */
  const judged = (count, rz) => {
    const norm = Math.sqrt(sum(product(r, z)));
    report.add("judge", [now[state.rz]], [sum(product(r, z))], [size(product(r, z))]);
    report.addRounded("judge", [now[state.norm]], [norm], all);
    report.addRounded("judge", [now[state.count]], [count], 0);
    report.addRounded("judge", [now[state.beta]], [count === 0 ? 0 : now[state.rz] / rz]);
    const isEnd = norm === 0 || now[state.norm] <= now[state.enough];
    report.addRounded("judge", [now[state.done]], [isEnd ? 1 : 0], 0);
  };
  judged(0);
  report.addRounded("judge", [now[state.first], now[state.enough]], [now[state.norm], 1e-6 * now[state.norm]]);
  for (let count = 1; count <= 2 && now[state.done] === 0; ++count) {
    const before = await bench.vector("P"), x = await bench.vector("X");
    bench.run("along");
    const p = await bench.vector("P"), beta = now[state.beta];
    report.add("along", p, z.map((value, c) => value + beta * before[c]),
               z.map((value, c) => 2 * unit * (Math.abs(value) + Math.abs(beta * before[c]))));
    bench.run("rows", Math.ceil(at.ROWS / 64));
    const rows = await bench.read(system.vec, at.T, at.ROWS);
    const along = (v) => {
      const out = [];
      for (const { rows: each, instances, width, columns, jacobian } of model.lists) {
        for (let row = 0; row < each * instances; ++row) {
          let value = 0;
          for (let c = 0; c < width; ++c)
            value += jacobian[row * width + c] * (v[columns[Math.floor(row / each) * width + c]] ?? 0);
          out.push(value);
        }
      }
      return out;
    };
    const widest = 4 + Math.max(...model.lists.map(({ width }) => width)), sizes = p.map(Math.abs);
    report.add("rows", rows, along(p), bounded(bench.absolute(() => along(sizes)), widest));
    bench.run("columns");
    const q = await bench.vector("Q");
    const products = (v) => {
      const out = new Float64Array(m + 1);
      model.product(Float64Array.of(...v, 0), out);
      return v.map((value, c) => (out[c] + d[c] * value) * free[c]);
    };
    const met = Math.max(...bench.absolute(() => {
      const norms = new Float64Array(m);
      model.gradient(new Float64Array(m), norms);
      return [...norms];
    }, () => 1));
    report.add("columns", q, products(p), bounded(bench.absolute(() => products(sizes)), widest + met));
    const rz = now[state.rz];
    bench.run("bend", 1);
    now = await bench.scalars();
    const pq = product(p, q), alpha = now[state.alpha];
    report.add("bend", [alpha], [rz / sum(pq)], [rz / sum(pq) * (unit * 4 + size(pq) / sum(pq))]);
    bench.run("update");
    const last = r;
    r = await bench.vector(count % 2 === 1 ? "R2" : "R");
    z = await bench.vector("Z");
    report.add("update", await bench.vector("X"), x.map((value, c) => value + alpha * p[c]),
               x.map((value, c) => 2 * unit * (Math.abs(value) + Math.abs(alpha * p[c]))));
    const exact = last.map((value, c) => value - alpha * q[c]);
    const parts = last.map((value, c) => Math.abs(value) + Math.abs(alpha * q[c]));
    report.add("update", r, exact, bounded(parts, 2));
    report.add("update", z, preconditioned(exact), bounded(preconditioned(parts, Math.abs), wide));
    bench.run("judge", 1);
    now = await bench.scalars();
    judged(count, rz);
  }
  // The other norm, that of the residual itself.
  const unscaled = Math.sqrt(sum(weighted(b.map((value, c) => value * free[c]))));
  bench.write(system.request, 0, [1e-6, 0, 100, 0]);
  bench.run("begin");
  bench.run("judge", 1);
  now = await bench.scalars();
  report.addRounded("judge", [now[state.norm]], [unscaled], all);
}

/** What ends a step: its gain by the linear model, its direction, and the point that is taken. */
async function checkStep(bench, report) {
  const { model, at, system } = bench, { m, n } = model, instances = sum(model.terms.map((term) => term.instances));
  const x = Array.from({ length: m }, () => Math.fround(next())), b = await bench.vector("B");
  bench.write(system.vec, at.X, x);
  bench.step("measure");
  const square = (v) => model.product(Float64Array.of(...v, 0), new Float64Array(m + 1));
  const gains = x.map((value, c) => value * b[c]), all = (at.ROWS + m + 16) * unit;
  const widest = Math.max(...model.lists.map(({ width }) => width));
  report.add("measure", [await bench.tally(0), await bench.tally(1)], [sum(gains), square(x)],
             [all * magnitude(gains), (all + widest * unit) * bench.absolute(() => square(x.map(Math.abs)))]);
  bench.step("direct");
  const direction = await bench.point("DIRECTION", n), scale = await bench.tail("SCALE");
  const places = (await bench.read(system.words, at.SCALAR, m, Uint32Array)).map((place) => place % 2 ** 31);
  report.addRounded("direct", places.map((k) => direction[k]), x.map((value, c) => 0.5 * value * scale[c]));
  const trial = await bench.point("TRIAL", n), costs = await bench.point("NEWCOSTS", instances);
  bench.step("take");
  report.addRounded("take", [...await bench.point("HERE", n), ...await bench.point("COSTS", instances)],
                    [...trial, ...costs], 0);
}

/**
 * Compares all kernels of a problem's folder.
 *
 * @param system the problem's, after a solve
 * @param start numbers of all unknowns
 * @returns by kernel: how many numbers were compared, and the worst share of a bound, which is at most 1
 */
export async function compareKernels(system, start, { Iteration }, { state }) {
  const bench = new Bench(system), report = new Report(), x = Float64Array.from(start, Math.fround);
  const { delta, along, held } = await begin(bench, x);
  const trial = await checkProblem(bench, report, x, delta);
  await checkRows(bench, report, trial);
  await checkGradient(bench, report, trial, along, held);
  await checkBlocks(bench, report, Iteration);
  await checkIteration(bench, report, Iteration, state);
  await checkStep(bench, report);
  system.device.check();
  const named = [...system.kernels, ...system.moves, ...system.bases].map(({ name }) => name);
  for (const name of [...Object.keys(system.run), ...named])
    report.kernels[name] ??= { count: 0, worst: Number.MAX_VALUE };
  return report.kernels;
}
