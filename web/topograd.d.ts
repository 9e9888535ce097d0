/** Problems that Topograd has compiled, solved in a page or in Node. */

/** A failure that a caller can tell from others by its code. */
export declare class TopogradError extends Error {
  /**
   * - `file`: a file cannot be read, is cut, or belongs to another problem
   * - `version`: the file was written for another version of the module
   * - `argument`: a name, a number or an option is wrong
   * - `nonfinite`: a number, the cost of the start or a derivative there is NaN or infinite
   * - `busy`: the problem is being solved
   * - `adapter`: WebGPU was asked for by name, and is not there or has no adapter
   * - `limit`: it was asked for by name, and the adapter allows no buffers of the problem's size
   * - `device`: it was asked for by name, and its device does not open, or the problem has energies
   */
  readonly code: "file" | "version" | "argument" | "nonfinite" | "busy" | "adapter" | "limit" | "device";
  constructor(code: TopogradError["code"], message: string);
}

/**
 * Options of a solve. Defaults are those that the problem was exported with. They mean what
 * SolverOptions of the library mean.
 */
export interface SolveOptions {
  /**
   * For residuals alone: `gauss_newton` tries an undamped step first at every point. For problems with
   * energies: `lbfgs`, and `newton` where the export has second derivatives.
   */
  method?: "levenberg_marquardt" | "gauss_newton" | "newton" | "lbfgs";
  /** Accepted and rejected steps. */
  maxIterations?: number;
  timeLimitSeconds?: number;
  /** Change of the cost by a step, relative to the cost, at which a solve ends. */
  functionTolerance?: number;
  /** Largest cosine between the residuals and a column of the Jacobian at which a solve ends. */
  gradientTolerance?: number;
  /** Size of a step, in units of the residuals and relative to them, at which a solve ends. */
  parameterTolerance?: number;
  initialTrustRegionRadius?: number;
  minTrustRegionRadius?: number;
  maxTrustRegionRadius?: number;
  /** Actual over predicted decrease above which a step is accepted. */
  minRelativeDecrease?: number;
  minLmDiagonal?: number;
  maxLmDiagonal?: number;
  /**
   * `factor`: a sparse factor of the normal equations; `cg`: conjugate gradients, preconditioned
   * by blocks; `automatic`: a factor unless it is dear.
   */
  linearSolver?: "automatic" | "factor" | "cg";
  /**
   * Steps by conjugate gradients with the factor of an earlier step or solve, as exact as
   * `linearTolerance`: for short solves one after the other, while a handle is dragged. With WebGPU
   * they run there or in JavaScript, where they are measured to be faster.
   */
  reuseFactor?: boolean;
  /** How exactly `cg` solves; `automatic` follows the gradient on meshes where `cg` is not asked for. */
  forcing?: "automatic" | "constant" | "eisenstat_walker";
  /** Residual of the normal equations, relative to the gradient, at which `cg` stops. */
  linearTolerance?: number;
  /** Iterations of `cg` in one step. */
  maxLinearIterations?: number;
  /** Energies: how often a solve goes on from a point where it converged that is no minimum. */
  maxEscapes?: number;
  /** Steps that `lbfgs` remembers. */
  maxLbfgsRank?: number;
  /** Ends the solve at the last accepted point. */
  signal?: AbortSignal;
}

/** One step of a solve, after its decision. */
export interface Step {
  iteration: number;
  /** At the last accepted point. */
  cost: number;
  accepted: boolean;
  /** Largest component of the gradient. */
  gradient: number;
  /** Of the trust region; for `newton` and `lbfgs` the length of the step along its direction. */
  radius: number;
  linearIterations: number;
  seconds: number;
}

export interface Summary {
  status: "convergence" | "no_convergence" | "failure" | "aborted";
  message: string;
  iterations: number;
  linearIterations: number;
  initialCost: number;
  finalCost: number;
  seconds: number;
  /** As Problem.device, at the end of the solve. */
  device: string;
  linearSolver: "factor" | "cg" | "none";
}

export interface LoadOptions {
  /**
   * `webgpu` solves for steps by conjugate gradients on the device in float32, refined in float64; all
   * else is JavaScript's, as are solves with `linearSolver: "factor"`. `automatic` takes WebGPU for
   * 3,000 unknowns or more on an adapter that is no program on the processor.
   */
  device?: "automatic" | "webgpu" | "javascript";
  /**
   * On WebGPU: `f32` takes whole steps on the device in float32 until they end, and float64 goes on as
   * `mixed`; the folder must have been exported with `--f32`.
   */
  precision?: "mixed" | "f32";
  /** The entry to WebGPU; otherwise navigator.gpu, and in Node the package `webgpu`. */
  gpu?: unknown;
}

/**
 * Loads the problem of an exported folder.
 *
 * @param url the folder, with a slash at its end, or the file problem.bin in it; kernels.js lies
 *   beside that. In a page, relative addresses are those of the page.
 */
export declare function load(url: string | URL, options?: LoadOptions): Promise<Problem>;

/** A problem and its present point. */
export declare class Problem {
  private constructor();
  readonly name: string;
  /** What computes: `JavaScript`, or WebGPU with its adapter and precision. */
  readonly device: string;
  /** Why JavaScript computes, or solves with `reuseFactor`; else empty with WebGPU. Names a lost device. */
  readonly reason: string;
  /** Names of the arrays of unknowns. */
  readonly arrays: string[];
  /** Labels of the residuals and energies. */
  readonly labels: string[];
  /** Triangles of the mesh whose vertices are the blocks of the first array; may be empty. */
  readonly faces: Uint32Array;

  /** Numbers of a block. */
  width(array: string): number;
  /** A copy of the numbers of an array of unknowns at the last accepted point. */
  parameters(array: string): Float64Array;
  /** A copy of the data of the residuals with a label, instance by instance. */
  data(label: string): Float64Array;
  /**
   * Replaces the numbers of an array of unknowns, or the data of the residuals with a label. During
   * a solve the steps that follow start from there.
   *
   * @param values as many finite numbers as there are, within their bounds. Residuals that all read
   *   the same unknowns, as those of a curve do, take data of any number of instances.
   */
  set(name: string, values: ArrayLike<number>): void;
  /**
   * The rows of the residuals with a label at the present point, instance by instance, corrected for
   * losses. An energy has one row, its value.
   *
   * @param data numbers in place of data(label), for as many instances; any number for a curve
   */
  residuals(label: string, data?: ArrayLike<number>): Float64Array;
  /** Pairs of blocks of an array that meet in residuals which meet no third one, each once. */
  links(array: string): Uint32Array;
  /** Holds a block at these numbers until it is released. */
  pin(array: string, block: number, values: ArrayLike<number>): void;
  /** Frees a block that pin() holds. */
  release(array: string, block: number): void;

  /** Half the sum of squares, or of losses, and all energies, at the present point. */
  cost(): number;
  /**
   * Minimises from the present point, and yields each step. Returns the summary. Leaving the loop
   * early ends the solve; the unknowns are those of the last accepted point.
   */
  solve(options?: SolveOptions): AsyncGenerator<Step, Summary, void>;
  minimize(options?: SolveOptions): Promise<Summary>;
  /** Opens the device, or analyses the factor, as the first solve does otherwise. */
  prepare(): Promise<void>;
  /** Gives a device back that solves have opened; the next solve opens another one. */
  close(): void;
}
