// Levenberg-Marquardt's steps in float32 on the device: rows, derivatives, steps and costs. A step is
// one submission, and JavaScript reads sums and decides.

const none = 0xffffffff;
/** Workgroups that leave parts of sums, and the number of sums. */
const tallies = 64, slots = 12;
const mostGroups = 65535;
const aligned = (count) => Math.ceil(count / 64) * 64;
/** Numbers of f32 that stand for no bound. */
const unbounded = 3e38;
const steps = ["take", "damp", "measure", "direct", "advance", "collect", "gradient", "scale"];

/** A number of float32 within bounds of float64: on one where it is on its nearest float32. */
function within(value, low, high) {
  return value <= Math.fround(low) ? low : value >= Math.fround(high) ? high : value;
}

/** Lays arrays out in a buffer, each at an index that can be bound. */
class Layout {
  size = 0;
  add(length) {
    const at = this.size;
    this.size += aligned(length);
    return at;
  }
}

/**
 * The precision f32 for a problem.
 *
 * @param module classes and kernels of the module that loads the problem
 * @param address of the problem
 * @param read reads a file
 */
export async function float32({ DeviceError, Stepper, System, equations, groupSize, kinds, most, normalEquations, state },
                              address, read) {
  const text = async (name) => new TextDecoder().decode(await read(new URL(name, address)));
  const [, ...parts] = (await text("kernels.wgsl")).split(/^\/\/ kernel (\w+)\n/m), sources = {};
  for (let k = 0; k < parts.length; k += 2) sources[parts[k]] = parts[k + 1];
  sources.steps = await text("steps.wgsl");

  /** A model on the device. */
  class Float32System extends System {
    constructor(model) {
      super(model);
      this.model = model;
      this.#extend();
    }

    /** Adds what steps read of the structure of terms and manifolds. */
    #extend() {
      const { plan, model } = this, { n, m, terms, lists } = model, { at } = plan;
      const raw = new Layout(), words = new Layout(), numbers = new Layout(), parts = [];
      words.add(plan.words.length);
      parts.push([0, plan.words]);
      const put = (content) => {
        const index = words.add(content.length);
        parts.push([index, content]);
        return index;
      };
      const byColumn = (index, width, count) =>
        Uint32Array.from({ length: width * count }, (_, k) => index[k % count * width + Math.floor(k / count)]);
      const kernels = this.kernels = [], bases = this.bases = [], moves = this.moves = [], table = [];
      let instances = 0;
      terms.forEach((term, t) => {
        const { rows, parameters, uniforms, data, instances: count, index } = term;
        const indices = put(byColumn(index, parameters + uniforms, count));
        const positions = put(byColumn(lists[t].positions, parameters, count));
        const one = { count, indices, numbers: numbers.add(data * count) };
        const add = (key, outputs) => {
          const results = raw.add(outputs * count);
          kernels.push({ ...one, name: term[key].name, buffers: term.shaders[key], results });
          return results;
        };
        const outputs = add("jacobian", rows * (1 + parameters));
        const cost = term.shaders.cost === undefined ? none : add("cost", 1);
        table.push(at.TERM + 7 * t, instances, outputs, parameters, positions, indices, cost, instances + count);
        instances += count;
      });
      const moved = new Uint32Array(n).fill(none), basis = new Uint32Array(3 * n).fill(none);
      const scalar = Uint32Array.from(model.scalarOf);
      for (const manifold of model.manifolds) {
        const { width, tangent, shaders, plus, basis: basisOf } = manifold;
        const blocks = model.moved.filter((one) => one.manifold === manifold), count = blocks.length;
        if (count === 0) continue;
        const index = Uint32Array.from({ length: width * count }, (_, k) => blocks[k % count].at + Math.floor(k / count));
        const one = { count, indices: put(index), numbers: 0 };
        const points = raw.add(width * count), matrices = raw.add(width * width * count);
        moves.push({ ...one, name: plus.name, buffers: shaders.plus, results: points });
        bases.push({ ...one, name: basisOf.name, buffers: shaders.basis, results: matrices });
        blocks.forEach(({ at: first, column }, i) => {
          for (let k = 0; k < width; ++k) {
            moved[first + k] = points + k * count + i;
            basis.set([matrices + k * width * count + i, count, tangent], 3 * (first + k));
          }
          for (let t = 0; t < tangent; ++t) scalar[column + t] = first + t + 2 ** 31;
        });
      }
      const point = new Layout(), tail = new Layout();
      tail.add(plan.entries);
      Object.assign(at, {
        SCALARS: n, INSTANCES: instances, BOUNDED: model.lower === undefined ? 0 : 1,
        CURVED: model.moved.length > 0 ? 1 : 0, TALLIES: tallies, TALLY: state.size,
        TERMS: put(Uint32Array.from(table)), SCALAR: put(scalar), MOVED: put(moved), BASIS: put(basis),
        GRADIENT: tail.add(m + 1), SQUARE: tail.add(m + 1), SCALE: tail.add(m + 1), OPEN: tail.add(m + 1),
      });
      for (const name of ["HERE", "TRIAL", "DIRECTION", "LOWER", "UPPER"]) at[name] = point.add(n);
      for (const name of ["PINNED", "JACOBI"]) at[name] = point.add(m);
      for (const name of ["COSTS", "NEWCOSTS"]) at[name] = point.add(instances);
      this.uniformsAt = numbers.add(model.uniforms.length);
      plan.words = new Uint32Array(words.size);
      for (const [index, content] of parts) plan.words.set(content, index);
      Object.assign(plan, { entries: tail.size, scalars: state.size + tallies * slots, raw: raw.size,
                            points: point.size, data: numbers.size });
      const rows = Math.max(n, m, at.ROWS, instances);
      this.groups = Math.min(tallies, Math.ceil(rows / groupSize));
    }

    get bytes() {
      return 4 * Math.max(super.bytes / 4, this.plan.raw, this.plan.points, this.plan.data);
    }

    get read() {
      return 64 + slots * tallies + aligned(this.model.n);
    }

    /** Compiles the kernels of steps. */
    async make() {
      const { plan } = this;
      for (const { count } of [...this.kernels, ...this.moves]) {
        if (count > mostGroups * groupSize)
          throw new DeviceError("limit", `${count} instances, and a dispatch has ${mostGroups * groupSize}`);
      }
      this.raw = this.buffer(plan.raw);
      this.point = this.buffer(plan.points);
      this.data = this.buffer(plan.data);
      this.other = this.buffer(plan.entries);
      const layout = await this.compile(normalEquations(plan.at) + sources.steps, [...equations, ...steps],
                                        [...kinds, "storage", "storage"]);
      this.sets = [this.jac, this.other].map((jac) => this.bind(layout,
        [this.words, jac, this.vec, this.scalars, this.request, this.raw, this.point]));
      this.group = this.sets[0];  // of the equations alone
      await Promise.all([...this.kernels, ...this.moves, ...this.bases].map((kernel) => this.#compile(kernel)));
    }

    /** Compiles a kernel of the problem. */
    async #compile(kernel) {
      const { device, plan } = this, { gpu } = device, { count, buffers, indices, numbers, results } = kernel;
      const layoutOf = (types) => gpu.createBindGroupLayout({ entries: types.map((type, binding) =>
        ({ binding, visibility: GPUShaderStage.COMPUTE, buffer: { type } })) });
      const own = layoutOf(buffers.map((name) => name === "results" ? "storage" : "read-only-storage"));
      const pushed = layoutOf(["uniform"]);
      const points = (index) => ({ buffer: this.point, offset: 4 * index, size: 4 * aligned(this.model.n) });
      const resources = {
        x: points(this.moves.includes(kernel) ? plan.at.HERE : plan.at.TRIAL),
        direction: points(plan.at.DIRECTION),
        index_columns: { buffer: this.words, offset: 4 * indices },
        data_columns: { buffer: this.data, offset: 4 * numbers },
        uniforms: { buffer: this.data, offset: 4 * this.uniformsAt },
        results: this.raw,
      };
      // count, first, stride, out_stride, out_first, x_first, overwrite, zero_bits
      const request = device.buffer(32, GPUBufferUsage.UNIFORM, Uint32Array.of(count, 0, count, count, results, 0, 1, 0));
      [kernel.pipeline] = await device.pipelines(sources[kernel.name], [own, pushed], ["main"]);
      kernel.groups = [this.bind(own, buffers.map((name) => resources[name])), this.bind(pushed, [request])];
    }

    /** Takes over numbers of terms, and what callers hold. */
    upload(x, pinned) {
      const { plan, model, device } = this, { at } = plan, data = new Float32Array(plan.data);
      for (const { term, numbers, count } of this.terms()) {
        for (let i = 0, from = 0; i < count; ++i)
          for (let k = 0; k < term.data; ++k) data[numbers + k * count + i] = term.numbers[from++];
      }
      data.set(model.uniforms, this.uniformsAt);
      const write = (name, values) => device.gpu.queue.writeBuffer(this.point, 4 * at[name], Float32Array.from(values));
      device.check();
      device.gpu.queue.writeBuffer(this.data, 0, data);
      write("HERE", x);
      write("DIRECTION", new Float32Array(model.n));
      write("PINNED", pinned);
      write("JACOBI", new Float32Array(model.m));
      if (model.lower !== undefined) {
        write("LOWER", model.lower.map((low) => Math.max(low, -unbounded)));
        write("UPPER", model.upper.map((high) => Math.min(high, unbounded)));
      }
    }

    *terms() {
      let k = 0;
      for (const term of this.model.terms) {
        const { numbers, count } = this.kernels[k];
        yield { term, numbers, count };
        k += term.shaders.cost === undefined ? 1 : 2;
      }
    }

    dispatchKernels(pass, kernels) {
      for (const { pipeline, groups, count } of kernels) {
        pass.setPipeline(pipeline);
        groups.forEach((group, k) => pass.setBindGroup(k, group));
        pass.dispatchWorkgroups(Math.ceil(count / groupSize));
      }
    }

    /** The point along the last step, its rows, derivatives and cost. */
    evaluate(pass, set) {
      const each = (...names) => names.forEach((name) => this.dispatch(pass, name, this.groups));
      const use = (k) => pass.setBindGroup(0, this.sets[k]);
      this.dispatchKernels(pass, this.moves);
      use(1 - set);
      each("advance");
      this.dispatchKernels(pass, this.bases);
      this.dispatchKernels(pass, this.kernels);
      use(1 - set);
      each("collect", "gradient", "scale");
    }

    /** Submits what `encode` adds to a pass, and reads sums and the trial. */
    async submit(encode) {
      const { device, plan, staging } = this, { gpu } = device, { at } = plan;
      const commands = gpu.createCommandEncoder(), pass = commands.beginComputePass();
      encode(pass);
      pass.end();
      const parts = 4 * slots * tallies, n = this.model.n;
      commands.copyBufferToBuffer(this.scalars, 0, staging, 0, 256);
      commands.copyBufferToBuffer(this.scalars, 4 * at.TALLY, staging, 256, parts);
      commands.copyBufferToBuffer(this.point, 4 * at.TRIAL, staging, 256 + parts, 4 * aligned(n));
      const [now, tally, trial] = await device.read(commands, staging, [
        { at: 0, length: 64 }, { at: 256, length: slots * tallies }, { at: 256 + parts, length: n }]);
      const part = (slot) => tally.subarray(slot * tallies, slot * tallies + this.groups);
      const sum = (slot) => part(slot).reduce((all, value) => all + value, 0);
      const top = (slot) => part(slot).reduce((all, value) => Math.max(all, value), 0);
      return { trial, count: now[state.count], done: now[state.done] !== 0, failed: now[state.failed] !== 0,
               slope: sum(0), square: sum(1), cost: sum(2), change: sum(3), gradientSquare: sum(4),
               scaledX: sum(5), scaledStep: sum(6), gradientMax: top(8), scaledGradientMax: top(9), norm: top(10) };
    }

    ask(numbers) {
      this.device.gpu.queue.writeBuffer(this.request, 0, Float32Array.from(numbers));
    }
  }

  /** Evaluates points and makes steps on the device. It claims no end: float64 does. */
  class Float32Stepper extends Stepper {
    constructor(model, options, isMesh, system) {
      super(model, options, undefined, isMesh, { device: `WebGPU (${system.device.name}), f32` });
      this.system = system;
      this.isRough = true;
      this.few = false;
      this.curvature = undefined;
      this.unit = 2 ** -24;
      this.set = 0;
    }

    /** Takes over the caller's numbers, and returns the cost. */
    async cost(x) {
      const { system } = this;
      system.upload(x, this.pinned);
      const seen = await system.submit((pass) => system.evaluate(pass, this.set));
      this.#take(seen, x);
      return seen.cost;
    }

    #take(seen, x) {
      const { model } = this;
      this.seen = seen;
      this.set = 1 - this.set;
      this.taken = this.system.fresh = true;
      model.scalarOf.forEach((k, c) => {
        if (k < 0 || this.pinned[c] !== 0) return;
        const { lower, upper } = model, value = seen.trial[k];
        x[k] = lower === undefined ? value : within(value, lower[k], upper[k]);
      });
      for (const { at, manifold, column } of model.moved)
        if (this.pinned[column] === 0) x.set(seen.trial.subarray(at, at + manifold.width), at);
    }

    /** The cost is summed anew: what changes have lost is not carried on. */
    async linearize() {
      const { cost, gradientSquare, gradientMax, scaledGradientMax, scaledX, scaledStep } = this.seen;
      return { cost, gradientMax: Number.isFinite(gradientSquare) ? gradientMax : NaN,
               gradientNorm: Math.sqrt(gradientSquare), scaledGradientMax, scaledXNorm: Math.sqrt(scaledX),
               scaledStepNorm: Math.sqrt(scaledStep) };
    }

    accept(x) {
      this.#take(this.trialSeen, x);
    }

    /** The cost of the trial along the last step: changes are summed instance by instance. */
    #costOf(seen) {
      this.trialSeen = seen;
      return Number.isFinite(seen.cost) ? this.seen.cost - seen.change : seen.cost;
    }

    async move(x, length) {
      const { system } = this;
      this.request[7] = length;
      system.ask(this.request);
      return this.#costOf(await system.submit((pass) => {
        pass.setBindGroup(0, system.sets[this.set]);
        system.dispatch(pass, "direct", system.groups);
        system.evaluate(pass, this.set);
      }));
    }

    async tryStep(x, cost, lambda, tolerance, paused) {
      const { system, options: o } = this, iterations = o.maxLinearIterations;
      const step = { decrease: NaN, trialCost: NaN, hidden: 0, dampedShare: NaN, iterations: 0 };
      const least = this.small ? Math.max(o.minLmDiagonal, 1) : o.minLmDiagonal;
      this.request = [Math.max(tolerance, 2e-6), 0, iterations, this.isLoose ? 0 : 1, lambda, least,
                      o.maxLmDiagonal, 1, Math.max(this.seen.norm, 1e-18)];
      system.ask(this.request);
      let seen, count = 0;
      for (let more = system.expected; ; more = Math.min(most, 2 * more)) {
        const some = Math.min(more, iterations - count);
        seen = await system.submit((pass) => {
          const each = (...names) => names.forEach((name) => system.dispatch(pass, name, system.groups));
          pass.setBindGroup(0, system.sets[this.set]);
          if (count === 0) {
            if (this.taken) each("take");
            this.taken = false;
            each("damp");
            system.start(pass, true);
          }
          system.iterate(pass, some);
          each("measure", "direct");
          system.evaluate(pass, this.set);
        });
        count += some;
        if (await paused()) return step;
        if (seen.done || count >= iterations) break;
      }
      step.iterations = seen.count;
      system.expect(seen.count);
      const decrease = seen.slope - seen.square / 2;
      if (seen.count === 0 || !Number.isFinite(decrease)) return step;
      step.decrease = decrease;
      step.trialCost = this.#costOf(seen);
      this.slope = -seen.slope;
      if (this.slope < 0) step.dampedShare = 2 * decrease / -this.slope - 1;
      if (this.model.lower !== undefined) await this.search(x, cost, step);
      return step;
    }
  }

  return { Float32System, Float32Stepper };
}
