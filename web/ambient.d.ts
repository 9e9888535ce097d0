// The part of Node and of WebGPU that the module uses; TypeScript's library has no types for them.
declare module "webgpu" {
  export const globals: object;
  export function create(options: string[]): GPU;
}
declare module "node:fs/promises" {
  export function readFile(path: URL): Promise<Uint8Array>;
}
declare function setImmediate(work: () => void): unknown;
declare var process: { readonly versions?: { readonly node?: string } } | undefined;

interface Navigator {
  readonly gpu?: GPU;
}
interface GPU {
  requestAdapter(options: { powerPreference: "high-performance" }): Promise<GPUAdapter | null>;
}
interface GPULimits {
  readonly maxStorageBufferBindingSize: number;
  readonly maxBufferSize: number;
}
interface GPUAdapterInfo {
  readonly vendor?: string;
  readonly architecture?: string;
  readonly description?: string;
  readonly isFallbackAdapter?: boolean;
}
interface GPUAdapter {
  readonly info?: GPUAdapterInfo;
  readonly isFallbackAdapter?: boolean;
  readonly limits: GPULimits;
  requestDevice(descriptor: { requiredLimits: Partial<GPULimits> }): Promise<GPUDevice>;
}
interface GPUDevice {
  readonly lost: Promise<{ readonly message?: string; readonly reason?: string }>;
  readonly queue: GPUQueue;
  onuncapturederror: ((event: { readonly error: { readonly message: string } }) => void) | null;
  createBuffer(descriptor: { size: number; usage: number; mappedAtCreation: boolean }): GPUBuffer;
  createShaderModule(descriptor: { code: string }): GPUShaderModule;
  createBindGroupLayout(descriptor: {
    entries: { binding: number; visibility: number; buffer: { type: GPUBufferType } }[];
  }): GPUBindGroupLayout;
  createPipelineLayout(descriptor: { bindGroupLayouts: GPUBindGroupLayout[] }): GPUPipelineLayout;
  createComputePipelineAsync(descriptor: {
    layout: GPUPipelineLayout; compute: { module: GPUShaderModule; entryPoint: string };
  }): Promise<GPUComputePipeline>;
  createBindGroup(descriptor: {
    layout: GPUBindGroupLayout; entries: { binding: number; resource: GPUBufferBinding }[];
  }): GPUBindGroup;
  createCommandEncoder(): GPUCommandEncoder;
  destroy(): void;
}
interface GPUQueue {
  submit(commands: GPUCommandBuffer[]): void;
  writeBuffer(buffer: GPUBuffer, offset: number, data: Float32Array | Uint32Array): void;
}
interface GPUBuffer {
  mapAsync(mode: number): Promise<void>;
  getMappedRange(): ArrayBuffer;
  unmap(): void;
}
interface GPUBufferBinding {
  readonly buffer: GPUBuffer;
  readonly offset?: number;
  readonly size?: number;
}
type GPUBufferType = "uniform" | "storage" | "read-only-storage";
interface GPUCommandEncoder {
  beginComputePass(): GPUComputePassEncoder;
  copyBufferToBuffer(source: GPUBuffer, sourceOffset: number, to: GPUBuffer, offset: number, size: number): void;
  finish(): GPUCommandBuffer;
}
interface GPUComputePassEncoder {
  setPipeline(pipeline: GPUComputePipeline): void;
  setBindGroup(index: number, group: GPUBindGroup): void;
  dispatchWorkgroups(x: number): void;
  end(): void;
}
// Objects that are only handed on. The marks keep TypeScript from taking one for another.
interface GPUShaderModule { readonly __kind: "module" }
interface GPUBindGroupLayout { readonly __kind: "layout" }
interface GPUPipelineLayout { readonly __kind: "pipeline layout" }
interface GPUComputePipeline { readonly __kind: "pipeline" }
interface GPUBindGroup { readonly __kind: "group" }
interface GPUCommandBuffer { readonly __kind: "commands" }
declare const GPUBufferUsage: {
  readonly MAP_READ: number; readonly COPY_SRC: number; readonly COPY_DST: number; readonly UNIFORM: number;
  readonly STORAGE: number;
};
declare const GPUMapMode: { readonly READ: number };
declare const GPUShaderStage: { readonly COMPUTE: number };
