// A program that uses the declarations as a page does; it is compiled, not run.
import { Problem, TopogradError, load } from "@topograd/web";
import type { LoadOptions, SolveOptions, Step, Summary } from "@topograd/web";

const where: LoadOptions = { device: "automatic", precision: "mixed", gpu: undefined };
const options: SolveOptions = {
  method: "levenberg_marquardt", maxIterations: 10, linearSolver: "cg", forcing: "constant", functionTolerance: 1e-9,
  reuseFactor: true, signal: new AbortController().signal,
};

async function use(): Promise<number> {
  const p: Problem = await load(new URL("problem.bin", "file:///folder/"), where);
  const [array]: string[] = p.arrays, [label]: string[] = p.labels;
  const x: Float64Array = p.parameters(array), data: Float64Array = p.data(label);
  p.set(array, x);
  p.set(label, [...data, 1, 2]);
  p.pin(array, 0, x.subarray(0, p.width(array)));
  p.release(array, 0);
  let cost: number = p.cost();
  for await (const step of p.solve(options)) {
    const { iteration, accepted, gradient, radius, linearIterations, seconds }: Step = step;
    cost = accepted ? step.cost : cost;
    if (iteration + gradient + radius + linearIterations + seconds > 1e6) break;
  }
  const steps = p.solve();
  const next: IteratorResult<Step, Summary> = await steps.next();
  const summary: Summary = next.done ? next.value : await p.minimize({ maxIterations: 2 });
  const { status, message, iterations, initialCost, finalCost, device, linearSolver } = summary;
  const ended: "convergence" | "no_convergence" | "failure" | "aborted" = status;
  const rows: Float64Array = p.residuals(label), other: Float64Array = p.residuals(label, [1, 2, 3]);
  const pairs: Uint32Array = p.links(array), faces: Uint32Array = p.faces;
  await p.prepare();
  p.close();
  return [ended, message, device, linearSolver, p.name, p.device, p.reason].length + iterations + initialCost + finalCost +
         rows.length + other.length + pairs.length + faces.length + cost;
}

use().catch((error: unknown) => {
  if (error instanceof TopogradError && error.code === "busy") return error.message;
  throw error;
});

// What is wrong is an error of the compiler.
export async function misuse(p: Problem): Promise<void> {
  // @ts-expect-error no such method
  p.minimise();
  // @ts-expect-error no such option
  await p.minimize({ maxSteps: 3 });
  // @ts-expect-error no such solver
  await p.minimize({ linearSolver: "qr" });
  // @ts-expect-error numbers, not text
  p.set("x", "1 2 3");
  // @ts-expect-error names are given back, not set
  p.name = "other";
  // @ts-expect-error problems are loaded
  new Problem();
  // @ts-expect-error no such device
  await load("folder/", { device: "cuda" });
}
