// What the modules use of Node and of WebGPU, whose types TypeScript does not have.
declare module "webgpu" {
  export const globals: object;
  export function create(options: string[]): any;
}
declare module "node:fs/promises" {
  export function readFile(path: URL): Promise<Uint8Array>;
}
declare const GPUBufferUsage: { readonly [name: string]: number };
declare const GPUMapMode: { readonly [name: string]: number };
declare const GPUShaderStage: { readonly [name: string]: number };
declare function setImmediate(work: (value?: unknown) => void): unknown;
declare var process: { versions?: { node?: string } } | undefined;
interface Navigator {
  readonly gpu?: any;
}
