/** Graph documents for tests and for looking at: small, a transformer, very large, broken. */

import type {
  IGraphDocument,
  IKernel,
  INode,
  IScope,
  IValue,
  Dim,
  ValueKind
} from '../src/proto/document';

type Attrs = Record<string, string>;

/** The families of the operations of these documents, as the table of operations has them. */
const FAMILIES: Record<string, string> = {
  cond: 'control',
  concat: 'view',
  gather: 'index',
  gelu: 'activation',
  layer_norm: 'norm',
  matmul: 'contract',
  permute: 'view',
  range: 'source',
  relu: 'activation',
  reshape: 'view',
  slice_tensor: 'view',
  softmax: 'activation',
  sum: 'reduce',
  tanh: 'activation',
  unsqueeze: 'view',
  while: 'control'
};

/** Builds documents the way the Python side does: one call per operation. */
export class Builder {
  readonly document: IGraphDocument;
  private _next = 0;
  private _line = 1;

  constructor(name: string) {
    this.document = {
      format: 'maxlab.graph',
      version: 1,
      name,
      revision: 1,
      nodes: [],
      values: [],
      inputs: [],
      outputs: [],
      scopes: [],
      kernels: [],
      passes: [],
      profile: null,
      error: null
    };
  }

  value(shape: Dim[], kind: ValueKind = 'tensor', name: string | null = null, dtype = 'float32'): string {
    const id = `v${this._next++}`;
    const short: Record<string, string> = { float32: 'f32', int64: 'i64', bool: 'bool' };
    const sizes = shape.map(d => (typeof d === 'number' ? d : 0));
    const known = sizes.every(d => d > 0);
    const value: IValue = {
      id,
      type: `${short[dtype] ?? dtype}[${shape.join(', ')}]`,
      dtype,
      shape,
      kind,
      name,
      nbytes: known ? sizes.reduce((a, b) => a * b, 4) : null
    };
    this.document.values.push(value);
    return id;
  }

  input(name: string, shape: Dim[], dtype = 'float32'): string {
    const id = this.value(shape, 'input', name, dtype);
    this.document.inputs.push(id);
    return id;
  }

  weight(name: string, shape: Dim[]): string {
    return this.value(shape, 'weight', name);
  }

  op(op: string, operands: string[], shape: Dim[], scope = '', attrs: Attrs = {}, text = ''): string {
    const result = this.value(shape);
    const node: INode = {
      id: `n${this._next++}`,
      op,
      name: op,
      scope,
      operands,
      results: [result],
      attrs,
      source: {
        file: 'cell [7]',
        line: this._line++,
        col: 4,
        text: text || `    y = ops.${op}(${operands.join(', ')})`,
        function: scope.split('.').pop() || null
      },
      error: null,
      family: FAMILIES[op] ?? 'elementwise'
    };
    this.document.nodes.push(node);
    return result;
  }

  scope(path: string, label: string, type: string, fingerprint: string): void {
    const scope: IScope = { path, label, type, fingerprint };
    this.document.scopes.push(scope);
  }

  output(...ids: string[]): void {
    this.document.outputs.push(...ids);
  }

  lastNode(): INode {
    return this.document.nodes[this.document.nodes.length - 1] as INode;
  }
}

/** `gelu(x * s + b)`. */
export function threeOps(): IGraphDocument {
  const b = new Builder('first_graph');
  const x = b.input('x', ['batch', 2048]);
  const s = b.weight('scale', [2048]);
  const bias = b.weight('bias', [2048]);
  const t0 = b.op('mul', [x, s], ['batch', 2048], '', {}, '    y = x * scale + bias');
  const t1 = b.op('add', [t0, bias], ['batch', 2048], '', {}, '    y = x * scale + bias');
  const t2 = b.op('gelu', [t1], ['batch', 2048], '', { approximate: 'none' }, '    return ops.gelu(y)');
  b.output(t2);
  return b.document;
}

const H: Dim[] = ['batch', 'seq', 384];

function linear(b: Builder, x: string, scope: string, name: string, shape: Dim[], inner: number): string {
  const out = shape[shape.length - 1] as number;
  const w = b.weight(`${scope}.${name}.weight`, [inner, out]);
  const bias = b.weight(`${scope}.${name}.bias`, [out]);
  const path = `${scope}.${name}`;
  b.scope(path, name, 'Linear', `linear${inner}x${out}`);
  const y = b.op('matmul', [x, w], shape, path, {}, '    y = x @ self.weight.T');
  return b.op('add', [y, bias], shape, path, {}, '    return y + self.bias');
}

function attention(b: Builder, x: string, mask: string, scope: string): string {
  const heads: Dim[] = ['batch', 12, 'seq', 32];
  const parts = ['query', 'key', 'value'].map(name => {
    const y = linear(b, x, scope, name, H, 384);
    const r = b.op('reshape', [y], ['batch', 'seq', 12, 32], scope, { shape: '[batch, seq, 12, 32]' });
    const dims: Dim[] = name === 'key' ? ['batch', 12, 32, 'seq'] : heads;
    return b.op('permute', [r], dims, scope, { dims: name === 'key' ? '[0, 2, 3, 1]' : '[0, 2, 1, 3]' });
  });
  const [q, k, v] = parts as [string, string, string];
  const scores: Dim[] = ['batch', 12, 'seq', 'seq'];
  const s0 = b.op('matmul', [q, k], scores, scope, {}, '    scores = q @ k');
  const scale = b.value([], 'constant', null);
  b.document.nodes.push({
    id: `c${b.document.nodes.length}`,
    op: 'constant',
    name: 'constant',
    scope,
    operands: [],
    results: [scale],
    attrs: { value: '0.17678' },
    source: null,
    error: null,
    family: 'source'
  });
  const s1 = b.op('mul', [s0, scale], scores, scope);
  const s2 = b.op('add', [s1, mask], scores, scope);
  const p = b.op('softmax', [s2], scores, scope, { axis: '-1' });
  const c = b.op('matmul', [p, v], heads, scope);
  const t = b.op('permute', [c], ['batch', 'seq', 12, 32], scope, { dims: '[0, 2, 1, 3]' });
  const r = b.op('reshape', [t], H, scope, { shape: '[batch, seq, 384]' });
  return linear(b, r, scope, 'output', H, 384);
}

function layerNorm(b: Builder, x: string, scope: string, name: string): string {
  const path = `${scope}.${name}`;
  b.scope(path, name, 'LayerNorm', 'ln384');
  const g = b.weight(`${path}.weight`, [384]);
  const beta = b.weight(`${path}.bias`, [384]);
  return b.op('layer_norm', [x, g, beta], H, path, { epsilon: '1e-12' });
}

/** A sentence encoder of `layers` layers, about 30 operations each, with scopes as modules. */
export function transformer(layers = 6): IGraphDocument {
  const b = new Builder('minilm');
  const ids = b.input('input_ids', ['batch', 'seq'], 'int64');
  const mask = b.input('attention_mask', ['batch', 'seq'], 'int64');
  b.scope('embeddings', 'embeddings', 'Embeddings', 'emb');
  const word = b.weight('embeddings.word.weight', [30522, 384]);
  const place = b.weight('embeddings.position.weight', [512, 384]);
  const kind = b.weight('embeddings.token_type.weight', [2, 384]);
  const e0 = b.op('gather', [word, ids], H, 'embeddings', { axis: '0' });
  const range = b.op('range', [], ['seq'], 'embeddings');
  const e1 = b.op('gather', [place, range], ['seq', 384], 'embeddings', { axis: '0' });
  const t0 = b.op('slice_tensor', [kind], [384], 'embeddings', { index: '[0]' });
  const e2 = b.op('add', [e0, e1], H, 'embeddings');
  const e3 = b.op('add', [e2, t0], H, 'embeddings');
  let x = layerNorm(b, e3, 'embeddings', 'norm');
  const m0 = b.op('cast', [mask], ['batch', 'seq'], '', { dtype: 'float32' });
  const one = b.value([], 'constant', 'one');
  const m1 = b.op('sub', [one, m0], ['batch', 'seq']);
  const big = b.value([], 'constant', 'minus_big');
  const m2 = b.op('mul', [m1, big], ['batch', 'seq']);
  const bias = b.op('reshape', [m2], ['batch', 1, 1, 'seq'], '', { shape: '[batch, 1, 1, seq]' });
  b.scope('encoder', 'encoder', 'Encoder', 'enc');
  for (let i = 0; i < layers; i += 1) {
    const scope = `encoder.layers.${i}`;
    b.scope(scope, `layers.${i}`, 'EncoderLayer', 'layer');
    b.scope(`${scope}.attention`, 'attention', 'SelfAttention', 'att');
    const a = attention(b, x, bias, `${scope}.attention`);
    const r0 = b.op('add', [a, x], H, scope, {}, '    x = x + self.attention(x)');
    const y = layerNorm(b, r0, scope, 'norm1');
    b.scope(`${scope}.mlp`, 'mlp', 'FeedForward', 'mlp');
    const f0 = linear(b, y, `${scope}.mlp`, 'up', ['batch', 'seq', 1536], 384);
    const f1 = b.op('gelu', [f0], ['batch', 'seq', 1536], `${scope}.mlp`);
    const f2 = linear(b, f1, `${scope}.mlp`, 'down', H, 1536);
    const r1 = b.op('add', [f2, y], H, scope);
    x = layerNorm(b, r1, scope, 'norm2');
  }
  b.scope('pooling', 'pooling', 'MeanPooling', 'pool');
  const u = b.op('unsqueeze', [m0], ['batch', 'seq', 1], 'pooling', { axis: '-1' });
  const masked = b.op('mul', [x, u], H, 'pooling');
  const sum = b.op('sum', [masked], ['batch', 384], 'pooling', { axis: '1' });
  const count = b.op('sum', [u], ['batch', 1], 'pooling', { axis: '1' });
  const mean = b.op('div', [sum, count], ['batch', 384], 'pooling');
  const sq = b.op('mul', [mean, mean], ['batch', 384]);
  const norm2 = b.op('sum', [sq], ['batch', 1], '', { axis: '-1' });
  const inv = b.op('rsqrt', [norm2], ['batch', 1]);
  const out = b.op('mul', [mean, inv], ['batch', 384]);
  b.output(out);
  (b.document.values.find(v => v.id === out) as IValue).name = 'sentence_embedding';
  return b.document;
}

const C_TEXT = `/* matmul + bias, 32-column panels of packed B; rows are the parallel axis */
int k_3fa41c(void *const *b, const i64 *d, i64 lo, i64 hi, mx_ctx *ctx) {
  const float *restrict x = b[0];          // [batch*seq, 384]
  const float *restrict w = b[1];
  const float *restrict bias = b[2];
  float *restrict y = b[3];
  const i64 rows = d[0] * d[1];
  if (lo >= rows) return 0;
  ctx->lib->gemm_f32(y, 384, x, 384, w, rows, 384, 384, 64, 64, lo, hi, epilogue_3fa41c, b, d, ctx);
  return 0;
}
static void epilogue_3fa41c(void *const *b, const i64 *d, i64 r0, i64 r1, i64 c0, i64 c1, mx_ctx *ctx) {
  const float *restrict bias = b[2];
  float *restrict y = b[3];
  for (i64 r = r0; r < r1; r++) {
#pragma omp simd
    for (i64 c = c0; c < c1; c++) {
      float t0 = y[r * 384 + c] + bias[c];   // n13 add
      y[r * 384 + c] = t0 * 0.5f * (1.0f + mx_erff(t0 * 7.0710678e-1f));
    }
  }
}
`;

/** Adds kernels (chains of fused operations) and a made-up but stable profile. */
export function withProfile(document: IGraphDocument): IGraphDocument {
  const made = new Map<string, string>();
  document.nodes.forEach(n => n.results.forEach(r => made.set(r, n.id)));
  const users = new Map<string, number>();
  document.nodes.forEach(n => n.operands.forEach(o => users.set(o, (users.get(o) ?? 0) + 1)));
  const views = new Set(['reshape', 'permute', 'unsqueeze', 'slice_tensor', 'constant']);
  const groups: INode[][] = [];
  const groupOf = new Map<string, INode[]>();
  for (const node of document.nodes) {
    if (views.has(node.op)) {
      continue;
    }
    const before = node.operands.find(o => made.has(o) && users.get(o) === 1);
    const group = before === undefined ? undefined : groupOf.get(made.get(before) as string);
    if (group !== undefined && ['add', 'gelu', 'mul', 'div', 'sub'].includes(node.op)) {
      group.push(node);
      groupOf.set(node.id, group);
    } else {
      const fresh = [node];
      groups.push(fresh);
      groupOf.set(node.id, fresh);
    }
  }
  const cost: Record<string, number> = { matmul: 900_000, softmax: 160_000, layer_norm: 60_000, gather: 45_000 };
  document.kernels = groups.map((nodes, i): IKernel => {
    const head = nodes[0] as INode;
    const last = nodes[nodes.length - 1] as INode;
    return {
      id: `k${i}`,
      name: nodes.map(n => n.op).join('_'),
      kind: head.op === 'matmul' ? 'contract' : 'map',
      nodes: nodes.map(n => n.id),
      symbol: `k_3fa41c${i}`,
      source: C_TEXT,
      lines: [
        [1, 11, head.id],
        [12, 20, last.id]
      ],
      flops: head.op === 'matmul' ? '2*batch*seq*384*384' : 'batch*seq*384',
      bytes: '8*batch*seq*384',
      parallel: 'batch*seq'
    };
  });
  const kernels = document.kernels.map((k, i) => {
    const head = document.nodes.find(n => n.id === k.nodes[0]) as INode;
    const wide = head.scope.includes('mlp') ? 4 : 1;
    const base = (cost[head.op] ?? 22_000) * wide * (1 + ((i * 7919) % 13) / 60);
    const flops = head.op === 'matmul' ? 2 * 512 * 384 * 384 * wide : 512 * 384;
    return { id: k.id, ns: base, ns_min: base * 0.93, count: 1, flops, bytes: 8 * 512 * 384, nodes: k.nodes };
  });
  const total = kernels.reduce((a, k) => a + k.ns, 0);
  document.profile = {
    device: 'cpu',
    runs: 20,
    threads: 2,
    dims: { batch: 8, seq: 64 },
    wall_ns: total * 1.015,
    wall_ns_min: total * 0.98,
    kernels
  };
  document.passes = [
    { name: 'fold', before: 214, after: 196, ms: 0.8 },
    { name: 'cse', before: 196, after: 190, ms: 0.4 },
    { name: 'fuse', before: 190, after: document.kernels.length, ms: 2.1 }
  ];
  return document;
}

/** A flat graph of about `count` operations, shaped like a deep residual network with branches. */
export function large(count = 10_000): IGraphDocument {
  const b = new Builder(`large_${count}`);
  let x = b.input('x', ['batch', 512]);
  let made = 0;
  let seed = 1;
  const random = (): number => {
    seed = (seed * 1103515245 + 12345) & 0x7fffffff;
    return seed / 0x7fffffff;
  };
  const ops = ['matmul', 'add', 'gelu', 'mul', 'reshape', 'softmax', 'layer_norm', 'sum'];
  while (made < count) {
    const skip = x;
    const branches = 1 + Math.floor(random() * 12);
    const ends: string[] = [];
    for (let k = 0; k < branches; k += 1) {
      let y = skip;
      const length = 2 + Math.floor(random() * 5);
      for (let i = 0; i < length; i += 1) {
        y = b.op(ops[Math.floor(random() * ops.length)] as string, [y], ['batch', 512]);
        made += 1;
      }
      ends.push(y);
    }
    x = b.op('concat', ends, ['batch', 512]);
    x = b.op('add', [x, skip], ['batch', 512]);
    made += 2;
  }
  b.output(x);
  return b.document;
}

/** A flat graph of `lanes` parallel towers that exchange values: as wide as it is deep. */
export function wide(count = 10_000, lanes = 40): IGraphDocument {
  const b = new Builder(`wide_${count}`);
  const x = b.input('x', ['batch', 512]);
  let heads = Array.from({ length: lanes }, () => b.op('matmul', [x], ['batch', 512]));
  let made = lanes;
  let seed = 7;
  const random = (): number => {
    seed = (seed * 1103515245 + 12345) & 0x7fffffff;
    return seed / 0x7fffffff;
  };
  const ops = ['matmul', 'add', 'gelu', 'mul', 'reshape', 'softmax', 'layer_norm', 'sum'];
  while (made < count) {
    heads = heads.map((h, i) => {
      const other = heads[(i + 1) % lanes] as string;
      const operands = random() < 0.2 ? [h, other] : [h];
      made += 1;
      return b.op(ops[Math.floor(random() * ops.length)] as string, operands, ['batch', 512]);
    });
  }
  b.output(b.op('concat', heads, ['batch', 512]));
  return b.document;
}

/** A graph whose last operation failed. */
export function broken(): IGraphDocument {
  const b = new Builder('broken');
  const x = b.input('x', ['batch', 'seq', 384]);
  const w = b.weight('proj.weight', [512, 384]);
  const y = b.op('layer_norm', [x], ['batch', 'seq', 384], 'block');
  const g = b.op('gelu', [y], ['batch', 'seq', 384], 'block');
  b.op('matmul', [g, w], [], 'block', {}, '    return ops.gelu(x) @ self.weight');
  const node = b.lastNode();
  node.error = 'matmul: inner dims differ, 384 != 512';
  b.output(y);
  b.document.error = {
    code: 'ML203',
    message: 'matmul: inner dims differ, 384 != 512',
    fix: "transpose the right operand, or check the checkpoint's shape",
    node: node.id
  };
  return b.document;
}
