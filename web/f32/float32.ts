// Levenberg-Marquardt's steps in float32 on the device: rows, derivatives, steps and costs. A step is
// one submission, and JavaScript reads sums and decides.
import type * as gpu from "../gpu.js";
import type { Pause } from "../linear.js";
import type { Model, ResidualTerm } from "../model.js";
import type * as rules from "../rules.js";
import type { Options, Point, Trial } from "../rules.js";
import type * as solver from "../solver.js";

const none = 0xffffffff;
/** Workgroups that leave parts of sums, and the number of sums. */
const tallies = 64, slots = 12;
const mostGroups = 65535;
const aligned = (count: number) => Math.ceil(count / 64) * 64;
/** Numbers of f32 that stand for no bound. */
const unbounded = 3e38;
const steps = ["take", "damp", "measure", "direct", "advance", "collect", "gradient", "scale"];

/** A number of float32 within bounds of float64: on one where it is on its nearest float32. */
function within(value: number, low: number, high: number): number {
  return value <= Math.fround(low) ? low : value >= Math.fround(high) ? high : value;
}

/** Lays arrays out in a buffer, each at an index that can be bound. */
class Layout {
  size = 0;
  add(length: number): number {
    const at = this.size;
    this.size += aligned(length);
    return at;
  }
}

/** A kernel of the problem: where its indices, its data and its results are in their buffers. */
interface ProblemKernel {
  readonly name: string;
  readonly count: number;
  readonly buffers: readonly string[];
  readonly indices: number;
  readonly numbers: number;
  readonly results: number;
  compiled?: { readonly pipeline: GPUComputePipeline; readonly groups: readonly GPUBindGroup[] };
}

/** Sums of a trial, as the device has them. */
interface Seen {
  readonly trial: Float32Array;
  readonly count: number;
  readonly done: boolean;
  readonly failed: boolean;
  readonly slope: number;
  readonly square: number;
  readonly cost: number;
  readonly change: number;
  readonly gradientSquare: number;
  readonly scaledX: number;
  readonly scaledStep: number;
  readonly gradientMax: number;
  readonly scaledGradientMax: number;
  readonly norm: number;
}

/** The precision f32 of a problem. */
export interface Float32 {
  readonly Float32System: new (model: Model<ResidualTerm>) => gpu.System;
  /** @param system as Float32System makes them */
  readonly makeStepper: (model: Model<ResidualTerm>, options: Options, isMesh: boolean,
                         system: gpu.System) => solver.Stepper;
}

/**
 * The precision f32 for a problem.
 *
 * @param module classes and kernels of the module that loads the problem
 * @param address of the problem
 * @param read reads a file
 */
export async function float32(
    { DeviceError, Stepper, System, equations, groupSize, kinds, most, noPoint, noStep, normalEquations, state }:
      typeof gpu & Pick<typeof solver, "Stepper"> & Pick<typeof rules, "noPoint" | "noStep">,
    address: URL, read: (url: URL) => Promise<ArrayBuffer>): Promise<Float32> {
  const text = async (name: string) => new TextDecoder().decode(await read(new URL(name, address)));
  const [, ...parts] = (await text("kernels.wgsl")).split(/^\/\/ kernel (\w+)\n/m);
  const sources: Record<string, string> = {};
  for (let k = 0; k < parts.length; k += 2) sources[parts[k]] = parts[k + 1];
  sources.steps = await text("steps.wgsl");
  const shadersOf = <S>({ shaders }: { readonly shaders?: S }): S => {
    if (shaders === undefined) throw new DeviceError("device", "a term has no kernels of the precision f32");
    return shaders;
  };

  /** A model on the device. */
  class Float32System extends System {
    readonly model: Model<ResidualTerm>;
    readonly kernels: ProblemKernel[] = [];
    readonly bases: ProblemKernel[] = [];
    readonly moves: ProblemKernel[] = [];
    /** Offsets in buffers, where uniforms begin in the data, and the sizes of buffers. */
    readonly added: ReturnType<Float32System["extend"]>;
    groups = 0;
    // make() sets the rest.
    raw!: GPUBuffer;
    point!: GPUBuffer;
    data!: GPUBuffer;
    other!: GPUBuffer;
    sets: GPUBindGroup[] = [];

    constructor(model: Model<ResidualTerm>) {
      super(model);
      this.model = model;
      this.added = this.extend();
    }

    /** Adds what steps read of the structure of terms and manifolds. */
    private extend() {
      const { plan, model } = this, { n, m, terms, lists } = model, { at } = plan;
      const raw = new Layout(), words = new Layout(), numbers = new Layout();
      const parts: [index: number, content: Uint32Array][] = [];
      words.add(plan.words.length);
      parts.push([0, plan.words]);
      const put = (content: Uint32Array) => {
        const index = words.add(content.length);
        parts.push([index, content]);
        return index;
      };
      const byColumn = (index: Uint32Array | Int32Array, width: number, count: number) =>
        Uint32Array.from({ length: width * count }, (_, k) => index[k % count * width + Math.floor(k / count)]);
      const { kernels, bases, moves } = this, table: number[] = [];
      let instances = 0;
      terms.forEach((term, t) => {
        const { rows, parameters, uniforms, data, instances: count, index } = term;
        const indices = put(byColumn(index, parameters + uniforms, count));
        const positions = put(byColumn(lists[t].positions, parameters, count));
        const one = { count, indices, numbers: numbers.add(data * count) };
        const add = ({ name }: { readonly name: string }, buffers: readonly string[], outputs: number) => {
          const results = raw.add(outputs * count);
          kernels.push({ ...one, name, buffers, results });
          return results;
        };
        const shaders = shadersOf(term);
        const outputs = add(term.jacobian, shaders.jacobian, rows * (1 + parameters));
        const cost = shaders.cost === undefined ? none : add(term.cost, shaders.cost, 1);
        table.push(at.TERM + 7 * t, instances, outputs, parameters, positions, indices, cost, instances + count);
        instances += count;
      });
      const moved = new Uint32Array(n).fill(none), basis = new Uint32Array(3 * n).fill(none);
      const scalar = Uint32Array.from(model.scalarOf);
      for (const manifold of model.manifolds) {
        const { width, tangent, plus, basis: basisOf } = manifold, shaders = shadersOf(manifold);
        const blocks = model.moved.filter((one) => one.manifold === manifold), count = blocks.length;
        if (count === 0) continue;
        const index = Uint32Array.from({ length: width * count },
                                       (_, k) => blocks[k % count].at + Math.floor(k / count));
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
      const offsets = Object.assign(at, {
        SCALARS: n, INSTANCES: instances, BOUNDED: model.bounds === undefined ? 0 : 1,
        CURVED: model.moved.length > 0 ? 1 : 0, TALLIES: tallies, TALLY: state.size,
        TERMS: put(Uint32Array.from(table)), SCALAR: put(scalar), MOVED: put(moved), BASIS: put(basis),
        GRADIENT: tail.add(m + 1), SQUARE: tail.add(m + 1), SCALE: tail.add(m + 1), OPEN: tail.add(m + 1),
        HERE: point.add(n), TRIAL: point.add(n), DIRECTION: point.add(n), LOWER: point.add(n), UPPER: point.add(n),
        PINNED: point.add(m), JACOBI: point.add(m), COSTS: point.add(instances), NEWCOSTS: point.add(instances),
      });
      const uniforms = numbers.add(model.uniforms.length);
      plan.words = new Uint32Array(words.size);
      for (const [index, content] of parts) plan.words.set(content, index);
      plan.entries = tail.size;
      plan.scalars = state.size + tallies * slots;
      const rows = Math.max(n, m, at.ROWS, instances);
      this.groups = Math.min(tallies, Math.ceil(rows / groupSize));
      return { at: offsets, uniforms, raw: raw.size, points: point.size, data: numbers.size };
    }

    override get bytes(): number {
      return 4 * Math.max(super.bytes / 4, this.added.raw, this.added.points, this.added.data);
    }

    override get read(): number {
      return 64 + slots * tallies + aligned(this.model.n);
    }

    /** Compiles the kernels of steps. */
    override async make(): Promise<void> {
      const { plan, added } = this;
      for (const { count } of [...this.kernels, ...this.moves]) {
        if (count > mostGroups * groupSize)
          throw new DeviceError("limit", `${count} instances, and a dispatch has ${mostGroups * groupSize}`);
      }
      this.raw = this.buffer(added.raw);
      this.point = this.buffer(added.points);
      this.data = this.buffer(added.data);
      this.other = this.buffer(plan.entries);
      const layout = await this.compile(normalEquations(plan.at) + sources.steps, [...equations, ...steps],
                                        [...kinds, "storage", "storage"]);
      this.sets = [this.jac, this.other].map((jac) => this.bind(layout,
        [this.words, jac, this.vec, this.scalars, this.request, this.raw, this.point]));
      this.group = this.sets[0];  // of the equations alone
      await Promise.all([...this.kernels, ...this.moves, ...this.bases].map((kernel) => this.#compile(kernel)));
    }

    /** Compiles a kernel of the problem. */
    async #compile(kernel: ProblemKernel): Promise<void> {
      const { device, added: { at, uniforms } } = this, { count, buffers, indices, numbers, results } = kernel;
      const own = this.layout(buffers.map((name) => name === "results" ? "storage" : "read-only-storage"));
      const pushed = this.layout(["uniform"]);
      const points = (index: number) => ({ buffer: this.point, offset: 4 * index, size: 4 * aligned(this.model.n) });
      const resources: Record<string, GPUBuffer | GPUBufferBinding> = {
        x: points(this.moves.includes(kernel) ? at.HERE : at.TRIAL),
        direction: points(at.DIRECTION),
        index_columns: { buffer: this.words, offset: 4 * indices },
        data_columns: { buffer: this.data, offset: 4 * numbers },
        uniforms: { buffer: this.data, offset: 4 * uniforms },
        results: this.raw,
      };
      // count, first, stride, out_stride, out_first, x_first, overwrite, zero_bits
      const request = device.buffer(32, GPUBufferUsage.UNIFORM,
                                    Uint32Array.of(count, 0, count, count, results, 0, 1, 0));
      const [pipeline] = await device.pipelines(sources[kernel.name], [own, pushed], ["main"]);
      kernel.compiled = { pipeline, groups: [this.bind(own, buffers.map((name) => resources[name])),
                                             this.bind(pushed, [request])] };
    }

    /** Takes over numbers of terms, and what callers hold. */
    upload(x: Float64Array, pinned: Uint8Array): void {
      const { added, model, device } = this, { at } = added, data = new Float32Array(added.data);
      for (const { term, numbers, count } of this.terms()) {
        for (let i = 0, from = 0; i < count; ++i)
          for (let k = 0; k < term.data; ++k) data[numbers + k * count + i] = term.numbers[from++];
      }
      data.set(model.uniforms, added.uniforms);
      const write = (name: keyof typeof at, values: ArrayLike<number>) =>
        device.gpu.queue.writeBuffer(this.point, 4 * at[name], Float32Array.from(values));
      device.check();
      device.gpu.queue.writeBuffer(this.data, 0, data);
      write("HERE", x);
      write("DIRECTION", new Float32Array(model.n));
      write("PINNED", pinned);
      write("JACOBI", new Float32Array(model.m));
      if (model.bounds !== undefined) {
        write("LOWER", model.bounds.lower.map((low) => Math.max(low, -unbounded)));
        write("UPPER", model.bounds.upper.map((high) => Math.min(high, unbounded)));
      }
    }

    *terms(): Generator<{ term: ResidualTerm; numbers: number; count: number }> {
      let k = 0;
      for (const term of this.model.terms) {
        const { numbers, count } = this.kernels[k];
        yield { term, numbers, count };
        k += shadersOf(term).cost === undefined ? 1 : 2;
      }
    }

    dispatchKernels(pass: GPUComputePassEncoder, kernels: readonly ProblemKernel[]): void {
      for (const { compiled, count } of kernels) {
        if (compiled === undefined) continue;
        pass.setPipeline(compiled.pipeline);
        compiled.groups.forEach((group, k) => pass.setBindGroup(k, group));
        pass.dispatchWorkgroups(Math.ceil(count / groupSize));
      }
    }

    /** The point along the last step, its rows, derivatives and cost. */
    evaluate(pass: GPUComputePassEncoder, set: number): void {
      const each = (...names: string[]) => names.forEach((name) => this.dispatch(pass, name, this.groups));
      const use = (k: number) => pass.setBindGroup(0, this.sets[k]);
      this.dispatchKernels(pass, this.moves);
      use(1 - set);
      each("advance");
      this.dispatchKernels(pass, this.bases);
      this.dispatchKernels(pass, this.kernels);
      use(1 - set);
      each("collect", "gradient", "scale");
    }

    /** Submits what `encode` adds to a pass, and reads sums and the trial. */
    async submit(encode: (pass: GPUComputePassEncoder) => void): Promise<Seen> {
      const { device, staging } = this, { gpu } = device, { at } = this.added;
      const commands = gpu.createCommandEncoder(), pass = commands.beginComputePass();
      encode(pass);
      pass.end();
      const parts = 4 * slots * tallies, n = this.model.n;
      commands.copyBufferToBuffer(this.scalars, 0, staging, 0, 256);
      commands.copyBufferToBuffer(this.scalars, 4 * at.TALLY, staging, 256, parts);
      commands.copyBufferToBuffer(this.point, 4 * at.TRIAL, staging, 256 + parts, 4 * aligned(n));
      const [now, tally, trial] = await device.read(commands, staging, [
        { at: 0, length: 64 }, { at: 256, length: slots * tallies }, { at: 256 + parts, length: n }]);
      const part = (slot: number) => tally.subarray(slot * tallies, slot * tallies + this.groups);
      const sum = (slot: number) => part(slot).reduce((all, value) => all + value, 0);
      const top = (slot: number) => part(slot).reduce((all, value) => Math.max(all, value), 0);
      return { trial, count: now[state.count], done: now[state.done] !== 0, failed: now[state.failed] !== 0,
               slope: sum(0), square: sum(1), cost: sum(2), change: sum(3), gradientSquare: sum(4),
               scaledX: sum(5), scaledStep: sum(6), gradientMax: top(8), scaledGradientMax: top(9), norm: top(10) };
    }

    ask(numbers: readonly number[]): void {
      this.device.gpu.queue.writeBuffer(this.request, 0, Float32Array.from(numbers));
    }
  }

  /** Evaluates points and makes steps on the device. It claims no end: float64 does. */
  class Float32Stepper extends Stepper {
    override readonly isRough = true;
    override readonly few = false;
    override readonly curvature = undefined;
    override readonly unit = 2 ** -24;
    readonly system: Float32System;
    set = 0;
    taken = false;
    request: number[] = [];
    seen: Seen | undefined;       // of the point
    trialSeen: Seen | undefined;  // of the trial

    constructor(model: Model<ResidualTerm>, options: Options, isMesh: boolean, system: Float32System) {
      super(model, options, undefined, isMesh, `WebGPU (${system.device.name}), f32`);
      this.system = system;
    }

    /** Takes over the caller's numbers, and returns the cost. */
    override async cost(x: Float64Array): Promise<number> {
      const { system } = this;
      system.upload(x, this.pinned);
      const seen = await system.submit((pass) => system.evaluate(pass, this.set));
      this.#take(seen, x);
      return seen.cost;
    }

    #take(seen: Seen, x: Float64Array): void {
      const { model } = this;
      this.seen = seen;
      this.set = 1 - this.set;
      this.taken = this.system.fresh = true;
      model.scalarOf.forEach((k, c) => {
        if (k < 0 || this.pinned[c] !== 0) return;
        const { bounds } = model, value = seen.trial[k];
        x[k] = bounds === undefined ? value : within(value, bounds.lower[k], bounds.upper[k]);
      });
      for (const { at, manifold, column } of model.moved)
        if (this.pinned[column] === 0) x.set(seen.trial.subarray(at, at + manifold.width), at);
    }

    /** The cost is summed anew: what changes have lost is not carried on. */
    override async linearize(): Promise<Point> {
      if (this.seen === undefined) return noPoint;
      const { cost, gradientSquare, gradientMax, scaledGradientMax, scaledX, scaledStep } = this.seen;
      return { cost, gradientMax: Number.isFinite(gradientSquare) ? gradientMax : NaN,
               gradientNorm: Math.sqrt(gradientSquare), scaledGradientMax, scaledXNorm: Math.sqrt(scaledX),
               scaledStepNorm: Math.sqrt(scaledStep) };
    }

    override accept(x: Float64Array): void {
      if (this.trialSeen !== undefined) this.#take(this.trialSeen, x);
    }

    /** The cost of the trial along the last step: changes are summed instance by instance. */
    #costOf(seen: Seen): number {
      this.trialSeen = seen;
      return this.seen !== undefined && Number.isFinite(seen.cost) ? this.seen.cost - seen.change : seen.cost;
    }

    override async move(_x: Float64Array, length: number): Promise<number> {
      const { system } = this;
      this.request[7] = length;
      system.ask(this.request);
      return this.#costOf(await system.submit((pass) => {
        pass.setBindGroup(0, system.sets[this.set]);
        system.dispatch(pass, "direct", system.groups);
        system.evaluate(pass, this.set);
      }));
    }

    override async tryStep(x: Float64Array, cost: number, lambda: number, tolerance: number,
                           paused: Pause): Promise<Trial> {
      const { system, options: o } = this, iterations = o.maxLinearIterations;
      const step = noStep();
      const least = this.small ? Math.max(o.minLmDiagonal, 1) : o.minLmDiagonal;
      this.request = [Math.max(tolerance, 2e-6), 0, iterations, this.isLoose ? 0 : 1, lambda, least,
                      o.maxLmDiagonal, 1, Math.max(this.seen?.norm ?? 0, 1e-18)];
      system.ask(this.request);
      let seen: Seen, count = 0;
      for (let more = system.expected; ; more = Math.min(most, 2 * more)) {
        const some = Math.min(more, iterations - count);
        seen = await system.submit((pass) => {
          const each = (...names: string[]) => names.forEach((name) => system.dispatch(pass, name, system.groups));
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
      if (this.model.bounds !== undefined) await this.search(x, cost, step);
      return step;
    }
  }

  return {
    Float32System,
    makeStepper(model, options, isMesh, system) {
      if (!(system instanceof Float32System)) throw new DeviceError("device", "expected a system of the precision f32");
      return new Float32Stepper(model, options, isMesh, system);
    },
  };
}
