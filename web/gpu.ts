// WebGPU: adapters, and the normal equations on the device.
import { Iteration, type Pause, type Request } from "./linear.js";
import { type Model, widestBlock } from "./model.js";
import { groupSize, mostSums, normalEquations, state, tileOf } from "./wgsl.js";
export * from "./wgsl.js";

/** A device that cannot be used, or no longer. */
export class DeviceError extends Error {
  readonly code: "adapter" | "limit" | "device";

  constructor(code: DeviceError["code"], message: string) {
    super(message);
    this.code = code;
  }
}

/** An adapter with its name. `software`: it is a program on the processor. */
export interface Found {
  readonly adapter: GPUAdapter;
  readonly name: string;
  readonly software: boolean;
  readonly gpu: GPU;
}

const none = 0xffffffff;
const mostRowGroups = 1024;
const fewest = 4;
export const most = 256;
const finest = 2e-6;
const mostPasses = 8;
const trusted = 1e-2;

/** The entry to WebGPU: the page's, or that of the package `webgpu` in Node. */
async function entry(): Promise<GPU | undefined> {
  if (globalThis.navigator?.gpu !== undefined) return globalThis.navigator.gpu;
  if (globalThis.process?.versions?.node === undefined) return undefined;
  try {
    const { create, globals } = await import("webgpu");
    Object.assign(globalThis, globals);
    return create([]);
  } catch {
    return undefined;
  }
}
let known: Promise<GPU | undefined> | undefined;

/** An adapter with its name, or an error that says why there is none. */
export async function findAdapter(gpu?: GPU): Promise<Found> {
  gpu ??= await (known ??= entry());
  if (gpu === undefined) throw new DeviceError("adapter", "WebGPU is not there");
  const adapter = await gpu.requestAdapter({ powerPreference: "high-performance" })
    .catch((error: Error) => { throw new DeviceError("adapter", error.message); });
  if (!adapter) throw new DeviceError("adapter", "WebGPU has no adapter");
  const { vendor = "", architecture = "", description = "", isFallbackAdapter }: GPUAdapterInfo = adapter.info ?? {};
  const name = description || [vendor, architecture].filter((s) => s !== "").join(" ") || "unnamed";
  const software = Boolean(isFallbackAdapter ?? adapter.isFallbackAdapter) ||
                   /swiftshader|llvmpipe|basic render/i.test(`${vendor} ${architecture} ${description}`);
  return { adapter, name, software, gpu };
}

/** A device that knows when it is lost. */
export class Device {
  readonly gpu: GPUDevice;
  readonly name: string;
  lost: string | undefined;
  wrong: string | undefined;

  static async open({ adapter, name }: Found, bytes: number): Promise<Device> {
    const limits: { maxStorageBufferBindingSize?: number; maxBufferSize?: number } = {};
    for (const limit of ["maxStorageBufferBindingSize", "maxBufferSize"] as const) {
      if (bytes > adapter.limits[limit]) {
        throw new DeviceError("limit", `a buffer of ${bytes} bytes, and the adapter "${name}" has at ` +
                                         `most ${adapter.limits[limit]} (${limit})`);
      }
      if (bytes > 128 * 2 ** 20) limits[limit] = adapter.limits[limit];
    }
    const device = await adapter.requestDevice({ requiredLimits: limits })
      .catch((error: Error) => { throw new DeviceError("device", error.message); });
    return new Device(device, name);
  }

  constructor(device: GPUDevice, name: string) {
    this.gpu = device;
    this.name = name;
    device.lost.then(({ message, reason }) => { this.lost = message || reason || "lost"; });
    device.onuncapturederror = ({ error }) => { this.wrong ??= error.message; };
  }

  check(): void {
    const why = this.lost ?? this.wrong;
    if (why !== undefined) throw new DeviceError("device", `the device is lost: ${why}`);
  }

  buffer(bytes: number, how: number, content?: Uint32Array): GPUBuffer {
    const size = Math.max(16, Math.ceil(bytes / 16) * 16);
    const buffer = this.gpu.createBuffer({ size, usage: how, mappedAtCreation: content !== undefined });
    if (content !== undefined) {
      new Uint32Array(buffer.getMappedRange(), 0, content.length).set(content);
      buffer.unmap();
    }
    return buffer;
  }

  async pipelines(code: string, layout: GPUBindGroupLayout | GPUBindGroupLayout[],
                  entries: readonly string[]): Promise<GPUComputePipeline[]> {
    const { gpu } = this, module = gpu.createShaderModule({ code });
    const pipelineLayout = gpu.createPipelineLayout({ bindGroupLayouts: [layout].flat() });
    const made = entries.map((entryPoint) => gpu.createComputePipelineAsync(
      { layout: pipelineLayout, compute: { module, entryPoint } }));
    return Promise.all(made).catch((error: Error) => {
      this.check();
      throw new DeviceError("device", error.message);
    });
  }

  /** Submits, and reads buffers back that the commands have copied. */
  async read(commands: GPUCommandEncoder, staging: GPUBuffer,
             kinds: readonly { at: number; length: number }[]): Promise<Float32Array[]> {
    this.check();
    this.gpu.queue.submit([commands.finish()]);
    try {
      await staging.mapAsync(GPUMapMode.READ);
    } catch (error) {
      await new Promise((done) => setTimeout(done));  // lost is told after this
      this.check();
      throw new DeviceError("device", `the device is lost: ${error instanceof Error ? error.message : error}`);
    }
    const range = staging.getMappedRange();
    const out = kinds.map(({ at, length }) => new Float32Array(range, at, length).slice());
    staging.unmap();
    this.check();
    return out;
  }

  destroy(): void {
    this.gpu.destroy();
  }
}

/** Rows of a term: where its entries, columns and first row are. */
interface PlannedTerm {
  readonly entries: number;
  columns: number;
  readonly width: number;
  readonly instances: number;
  readonly rows: number;
  readonly first: number;
}

export interface Plan {
  words: Uint32Array;
  readonly at: Record<
    "COLUMNS" | "ROWS" | "BLOCKS" | "STRIDE" | "TERM" | "NODE" | "COLUMN" | "INCIDENT" | "WIDEST" | "ROW_TILE" |
    "COLUMN_TILE" | "GROUPS" | "SUMMANDS" | Vector | "T" | "BLOCK" | "INVERSE", number>;
  readonly terms: readonly PlannedTerm[];
  /** Lengths of buffers: of J, of vectors and blocks, and of scalars. */
  entries: number;
  readonly numbers: number;
  scalars: number;
}
type Vector = "B" | "D" | "FREE" | "WEIGHT" | "X" | "R" | "R2" | "Z" | "P" | "Q";

/** What the kernels read of the structure of J. */
export function makePlan(model: Model): Plan {
  const { m, lists } = model;
  const stride = Math.ceil((m + 1) / 64) * 64;
  let rows = 0, entries = 0;
  const terms: PlannedTerm[] = [];
  lists.forEach((list) => {
    const { width, instances, rows: each } = list;
    terms.push({ entries, columns: 0, width, instances, rows: each, first: rows });
    rows += each * instances;
    entries += each * instances * width;
  });
  // Blocks: nodes, or their single columns.
  const blocks: { first: number; width: number; count: number; begin: number; next: number; slot: number;
                  square: number }[] = [];
  const blockOf = new Int32Array(m);
  for (let k = 0; k + 1 < model.nodes.length; ++k) {
    const begin = model.nodes[k], wide = model.nodes[k + 1] - begin, w = wide <= widestBlock ? wide : 1;
    for (let c = begin; c < begin + wide; c += w) {
      blockOf.fill(blocks.length, c, c + w);
      blocks.push({ first: c, width: w, count: 0, begin: 0, next: 0, slot: 0, square: 0 });
    }
  }
  const meet = (use: (block: number, term: number, instance: number, base: number, width: number,
                      columns: Int32Array) => void) => {
    lists.forEach(({ width, instances, columns }, t) => {
      for (let i = 0; i < instances; ++i) {
        const base = i * width;
        for (let c = 0; c < width; ++c) {
          const column = columns[base + c];
          if (column >= m) continue;
          const b = blockOf[column];
          let seen = false;
          for (let e = 0; e < c && !seen; ++e)
            seen = columns[base + e] < m && blockOf[columns[base + e]] === b;
          if (!seen) use(b, t, i, base, width, columns);
        }
      }
    });
  };
  meet((b) => { blocks[b].count += 1; });
  let incidences = 0, slotsSize = 0, squares = 0;
  for (const block of blocks) {
    block.begin = block.next = incidences;
    block.slot = slotsSize;
    block.square = squares;
    incidences += block.count;
    slotsSize += block.count * block.width;
    squares += block.width * block.width;
  }
  const columnsSize = terms.reduce((sum, { width, instances }) => sum + width * instances, 0);
  const TERM = 0, NODE = TERM + 7 * terms.length, COLUMN = NODE + 6 * blocks.length;
  const first = COLUMN + m, INCIDENT = incidences, table = first + 2 * incidences + slotsSize;
  const words = new Uint32Array(table + columnsSize);
  let next = table;
  terms.forEach((term, t) => {
    const { width, instances } = term, { columns } = lists[t];
    term.columns = next;
    for (let c = 0; c < width; ++c)
      for (let i = 0; i < instances; ++i) words[next + c * instances + i] = columns[i * width + c];
    next += width * instances;
    words.set([term.entries, term.columns, width, instances, term.rows, term.first,
               term.first + term.rows * instances], TERM + 7 * t);
  });
  const slotsAt = first + 2 * incidences;
  meet((b, t, i, base, width, columns) => {
    const block = blocks[b], k = block.next++;
    words[first + k] = i;
    words[first + incidences + k] = TERM + 7 * t;
    const to = slotsAt + block.slot + (k - block.begin) * block.width;
    words.fill(none, to, to + block.width);
    for (let c = 0; c < width; ++c) {
      const column = columns[base + c];
      if (column < m && blockOf[column] === b) words[to + column - block.first] = c;
    }
  });
  blocks.forEach((block, n) => words.set(
    [block.first, block.width, first + block.begin, first + block.begin + block.count,
     slotsAt + block.slot, block.square], NODE + 6 * n));
  for (let c = 0; c < m; ++c) words[COLUMN + c] = NODE + 6 * blockOf[c];
  const groups = Math.min(mostSums / groupSize, Math.max(1, Math.ceil(m / groupSize)));
  const T = 10 * stride, BLOCK = T + Math.ceil(rows / 64) * 64, INVERSE = BLOCK + squares;
  const at = { COLUMNS: m, ROWS: rows, BLOCKS: blocks.length, STRIDE: stride, TERM, NODE, COLUMN, INCIDENT,
               WIDEST: Math.max(1, ...blocks.map(({ width }) => width)),
               ROW_TILE: tileOf(terms.map((term) => term.rows)), COLUMN_TILE: tileOf(blocks.map(({ width }) => width)),
               GROUPS: groups, SUMMANDS: groupSize * groups,
               B: 0, D: stride, FREE: 2 * stride, WEIGHT: 3 * stride, X: 4 * stride, R: 5 * stride, R2: 6 * stride,
               Z: 7 * stride, P: 8 * stride, Q: 9 * stride, T, BLOCK, INVERSE };
  return { words, at, terms, entries, numbers: INVERSE + squares, scalars: state.size };
}

/** Kernels of the normal equations, and the types of their buffers. */
export const equations = ["blocks", "invert", "begin", "along", "rows", "columns", "bend", "update", "judge"];
export const kinds: readonly GPUBufferType[] = ["read-only-storage", "storage", "storage", "storage", "uniform"];

/** The normal equations of a model on a device. */
export class System {
  readonly plan: Plan;
  expected = fewest;
  fresh = true;
  // open() sets the rest.
  device!: Device;
  staging!: GPUBuffer;
  request!: GPUBuffer;
  words!: GPUBuffer;
  jac!: GPUBuffer;
  vec!: GPUBuffer;
  scalars!: GPUBuffer;
  group!: GPUBindGroup;
  numbers = new Float32Array(0);
  run: Record<string, GPUComputePipeline> = {};

  constructor(model: Model) {
    this.plan = makePlan(model);
  }

  get bytes(): number {
    return 4 * Math.max(this.plan.words.length, this.plan.entries, this.plan.numbers);
  }

  async open(found: Found): Promise<this> {
    this.device = await Device.open(found, this.bytes);
    this.staging = this.device.buffer(4 * this.read, GPUBufferUsage.MAP_READ | GPUBufferUsage.COPY_DST);
    this.request = this.device.buffer(48, GPUBufferUsage.UNIFORM | GPUBufferUsage.COPY_DST);
    const { plan } = this;
    this.numbers = new Float32Array(plan.entries);
    this.words = this.buffer(plan.words.length, plan.words);
    this.jac = this.buffer(plan.entries);
    this.vec = this.buffer(plan.numbers);
    this.scalars = this.buffer(plan.scalars);
    await this.make();
    return this;
  }

  protected buffer(length: number, content?: Uint32Array): GPUBuffer {
    const storage = GPUBufferUsage.STORAGE | GPUBufferUsage.COPY_DST | GPUBufferUsage.COPY_SRC;
    return this.device.buffer(4 * length, storage, content);
  }

  get read(): number {
    return 64 + this.plan.at.STRIDE;
  }

  async make(): Promise<void> {
    const layout = await this.compile(normalEquations(this.plan.at), equations, kinds);
    this.group = this.bind(layout, [this.words, this.jac, this.vec, this.scalars, this.request]);
  }

  async compile(code: string, names: readonly string[], types: readonly GPUBufferType[]): Promise<GPUBindGroupLayout> {
    const layout = this.layout(types);
    const made = await this.device.pipelines(code, layout, names);
    this.run = Object.fromEntries(names.map((name, k) => [name, made[k]]));
    return layout;
  }

  protected layout(types: readonly GPUBufferType[]): GPUBindGroupLayout {
    return this.device.gpu.createBindGroupLayout({ entries: types.map((type, binding) =>
      ({ binding, visibility: GPUShaderStage.COMPUTE, buffer: { type } })) });
  }

  bind(layout: GPUBindGroupLayout, resources: readonly (GPUBuffer | GPUBufferBinding)[]): GPUBindGroup {
    return this.device.gpu.createBindGroup({ layout, entries: resources.map((one, binding) =>
      ({ binding, resource: "buffer" in one ? one : { buffer: one } })) });
  }

  /** Takes over J with scaled columns. */
  uploadJacobian(model: Model, scale: Float64Array): void {
    const { numbers } = this;
    this.plan.terms.forEach(({ entries, width, instances, rows }, t) => {
      const { columns, jacobian } = model.lists[t], all = instances * rows;
      for (let i = 0, j = 0; i < instances; ++i) {
        for (let r = 0; r < rows; ++r)
          for (let c = 0; c < width; ++c, ++j)
            numbers[entries + c * all + i * rows + r] = jacobian[j] * scale[columns[i * width + c]];
      }
    });
    this.device.check();
    this.device.gpu.queue.writeBuffer(this.jac, 0, numbers);
    this.fresh = true;
  }

  vector(name: Vector, values: Float32Array): void {
    this.device.gpu.queue.writeBuffer(this.vec, 4 * this.plan.at[name], values);
  }

  dispatch(pass: GPUComputePassEncoder, name: string, groups = this.plan.at.GROUPS): void {
    pass.setPipeline(this.run[name]);
    pass.dispatchWorkgroups(groups);
  }

  start(pass: GPUComputePassEncoder, invert: boolean): void {
    if (this.fresh) this.dispatch(pass, "blocks");
    if (this.fresh || invert) this.dispatch(pass, "invert");
    this.fresh = false;
    this.dispatch(pass, "begin");
    this.dispatch(pass, "judge", 1);
  }

  iterate(pass: GPUComputePassEncoder, count: number): void {
    const { at } = this.plan;
    const groups = Math.min(mostRowGroups, Math.ceil(at.ROWS / at.ROW_TILE / groupSize));
    for (; count > 0; --count) {
      this.dispatch(pass, "along");
      this.dispatch(pass, "rows", groups);
      this.dispatch(pass, "columns");
      this.dispatch(pass, "bend", 1);
      this.dispatch(pass, "update");
      this.dispatch(pass, "judge", 1);
    }
  }

  /** Iterations of the next submission, after so many. */
  expect(done: number): void {
    this.expected = Math.min(most, Math.max(fewest, done + 2));
  }

  /**
   * Solves for the right-hand side B, with D and the rest as they are on the device.
   *
   * @param invert for a step's first right-hand side: D has changed
   * @returns x, count, norm of the right-hand side and at the end; failed if there is no minimum
   */
  async solve({ tolerance, floor, iterations, inEnergy }: {
    tolerance: number; floor: number; iterations: number; inEnergy: boolean;
  }, invert: boolean, paused: Pause): Promise<{
    x: Float32Array; count: number; failed: boolean; first: number; norm: number;
  }> {
    const { device, plan, staging } = this, { gpu } = device, { at } = plan;
    gpu.queue.writeBuffer(this.request, 0,
                          Float32Array.of(tolerance, floor, iterations, inEnergy ? 1 : 0));
    let expected = invert ? this.expected : fewest;
    for (let k = 0;;) {
      const commands = gpu.createCommandEncoder(), pass = commands.beginComputePass();
      pass.setBindGroup(0, this.group);
      if (k === 0) this.start(pass, invert);
      const count = Math.min(expected, iterations - k);
      this.iterate(pass, count);
      k += count;
      pass.end();
      commands.copyBufferToBuffer(this.scalars, 0, staging, 0, 256);
      commands.copyBufferToBuffer(this.vec, 4 * at.X, staging, 256, 4 * at.STRIDE);
      const [now, x] = await device.read(commands, staging,
                                         [{ at: 0, length: 64 }, { at: 256, length: at.COLUMNS }]);
      const stopped = await paused();
      if (now[state.done] !== 0 || stopped || k >= iterations) {
        const done = now[state.count];
        if (invert) this.expect(done);
        return { x, count: done, failed: now[state.failed] !== 0, first: now[state.first],
                 norm: now[state.norm] };
      }
      expected = Math.min(most, 2 * expected);
    }
  }
}

/** Steps by conjugate gradients on the device in float32, refined in float64. */
export class DeviceIteration extends Iteration {
  readonly system: System;
  readonly device: string;
  readonly columnScale: Float64Array;
  readonly q: Float64Array;

  constructor(model: Model, system: System) {
    super(model);
    this.system = system;
    this.device = `WebGPU (${system.device.name}), mixed`;
    this.columnScale = new Float64Array(model.m + 1);
    this.q = new Float64Array(model.m + 1);
  }

  override assemble(squares: Float64Array, seesBlocks: boolean): void {
    if (seesBlocks) this.assembleBlocks();
    for (let c = 0; c < squares.length; ++c) {
      const s = 1 / Math.sqrt(squares[c]);
      this.columnScale[c] = Number.isFinite(s) ? s : 1;
    }
    this.system.uploadJacobian(this.model, this.columnScale);
  }

  override async solve(g: Float64Array, damping: Float64Array, held: Uint8Array, delta: Float64Array, request: Request,
                       paused: Pause): Promise<number> {
    const count = await this.#onDevice(g, damping, held, delta, request, paused);
    if (count >= 0) return count;
    this.assembleBlocks();
    return super.solve(g, damping, held, delta, request, paused);
  }

  /** Iterations, or -1 if float32 does not lead to the tolerance. */
  async #onDevice(g: Float64Array, damping: Float64Array, held: Uint8Array, delta: Float64Array, request: Request,
                  paused: Pause): Promise<number> {
    const { system, model, columnScale: s, q } = this, m = model.m;
    const part = () => new Float32Array(m);
    const b = part(), d = part(), free = part(), weight = part();
    let least = Infinity;
    for (let c = 0; c < m; ++c) least = Math.min(least, s[c]);
    const right = new Float64Array(m);
    for (let c = 0; c < m; ++c) {
      free[c] = held[c] === 0 ? 1 : 0;
      d[c] = damping[c] * s[c] * s[c];
      weight[c] = least / s[c];
      right[c] = held[c] === 0 ? -g[c] * s[c] : 0;
      delta[c] = 0;
    }
    delta[m] = 0;
    system.vector("D", d);
    system.vector("FREE", free);
    system.vector("WEIGHT", weight);
    let total = 0, enough = 0, last = Infinity;
    for (let pass = 0; pass < mostPasses; ++pass) {
      let size = 0;
      for (let c = 0; c < m; ++c) size = Math.max(size, Math.abs(right[c]));
      if (size === 0) break;
      if (!Number.isFinite(size)) return -1;
      for (let c = 0; c < m; ++c) b[c] = right[c] / size;
      system.vector("B", b);
      const tolerance = pass === 0 ? Math.max(request.tolerance, finest) : finest;
      const found = await system.solve(
        { tolerance, floor: enough / size, iterations: request.maxIterations - total,
          inEnergy: request.inEnergy }, pass === 0, paused);
      if (pass === 0) enough = request.tolerance * found.first * size;
      total += found.count;
      const norm = found.first * size;
      if (!Number.isFinite(norm + found.norm)) return -1;  // beyond float32
      if (found.count === 0 && !found.failed) return norm <= enough || pass === 0 ? total : -1;
      if (found.count === 0 || !(norm < 0.5 * last)) return last > 10 * enough ? -1 : total;
      last = norm;
      for (let c = 0; c < m; ++c) delta[c] += size * found.x[c] * s[c];
      if (request.tolerance >= trusted) return total;
      model.product(delta, q);
      for (let c = 0; c < m; ++c)
        right[c] = held[c] === 0 ? (-g[c] - q[c] - damping[c] * delta[c]) * s[c] : 0;
      if (await paused() || total >= request.maxIterations) break;
    }
    return total;
  }
}
