/** Answers of a kernel about a fixture: a memory plan, a compile report, passes, a trial of an edit. */

import type {
  ICompileAnswer,
  IEditAnswer,
  IMemoryAnswer,
  IMemorySlot,
  INodeFate,
  IStageAnswer,
  IStageCounts,
  IStagesAnswer,
  ITextAnswer,
  IWhyAnswer
} from '../src/proto/checks';
import type { IGraphDocument } from '../src/proto/document';

const ALIGN = 64;

/** A first-fit plan over the kernels of a document: each result lives until its last reader. */
export function memoryAnswer(doc: IGraphDocument): IMemoryAnswer {
  const steps = doc.kernels.map(k => k.id);
  const stepOf = new Map<string, number>();
  doc.kernels.forEach((k, i) => k.nodes.forEach(id => stepOf.set(id, i)));
  const slots: IMemorySlot[] = [];
  const placed: { offset: number; bytes: number; first: number; last: number }[] = [];
  doc.kernels.forEach((kernel, first) => {
    const node = doc.nodes.find(n => n.id === kernel.nodes[kernel.nodes.length - 1]);
    const value = node?.results[0];
    const shape = doc.values.find(v => v.id === value)?.shape ?? [];
    const dims: Record<string, number> = { batch: 8, seq: 64 };
    const bytes = shape.reduce<number>((n, d) => n * (typeof d === 'number' ? d : (dims[d] ?? 1)), 4);
    const readers = doc.nodes.filter(n => value !== undefined && n.operands.includes(value));
    const last = Math.max(first, ...readers.map(n => stepOf.get(n.id) ?? first));
    const isOutput = value !== undefined && doc.outputs.includes(value);
    const id = `s${slots.length}`;
    const name = node?.op ?? kernel.name;
    if (isOutput) {
      const last = steps.length - 1;
      const holder = 'k9 add';
      slots.push({ id, kind: 'output', bytes, offset: null, first, last, node: node?.id ?? null, value, name, holder });
      return;
    }
    const rows: [string, number, number][] = [['arena', bytes, last]];
    if (kernel.kind === 'contract') {
      rows.push(['scratch', 65_536, first]);
    }
    for (const [kind, size, until] of rows) {
      let offset = 0;
      for (const other of [...placed].sort((a, b) => a.offset - b.offset)) {
        const meets = other.first <= until && first <= other.last;
        if (meets && other.offset < offset + size && offset < other.offset + other.bytes) {
          offset = Math.ceil((other.offset + other.bytes) / ALIGN) * ALIGN;
        }
      }
      placed.push({ offset, bytes: size, first, last: until });
      slots.push({
        id: `${id}${kind === 'scratch' ? 't' : ''}`,
        kind,
        bytes: size,
        offset,
        first,
        last: until,
        node: node?.id ?? null,
        value: kind === 'scratch' ? '' : (value ?? ''),
        name: kind === 'scratch' ? `${name} scratch` : name,
        holder: kind === 'scratch' ? 'k3 matmul_add' : ''
      });
    }
  });
  const live = steps.map((_, at) =>
    placed.filter(p => p.first <= at && at <= p.last).reduce((sum, p) => sum + p.bytes, 0)
  );
  const peak = Math.max(0, ...live);
  const arena = placed.reduce((most, p) => Math.max(most, p.offset + p.bytes), 0);
  return {
    version: 2,
    dims: { batch: 8, seq: 64 },
    steps,
    slots,
    arena,
    peak,
    peak_step: live.indexOf(peak),
    fragmentation: arena > 0 ? 1 - peak / arena : 0,
    weights: 90_868_736,
    packed: 42_467_328,
    inputs: 8192,
    outputs: 12_288
  };
}

export function compileAnswer(doc: IGraphDocument): ICompileAnswer {
  return {
    version: 1,
    options: 'defaults',
    phases: [
      { name: 'passes', ns: 41e6, text: '' },
      { name: 'schedule', ns: 12e6, text: '' },
      { name: 'plan', ns: 3.1e6, text: '' },
      { name: 'kernels', ns: 612e6, text: '' },
      { name: 'bind', ns: 18e6, text: '' },
      { name: 'identity', ns: 0.4e6, text: '' },
      { name: 'cache', ns: 0.9e6, text: '' }
    ],
    units: doc.kernels.map((kernel, i) => ({
      kernels: [kernel.id],
      name: kernel.name,
      symbol: `mx_${kernel.id}`,
      hit: i % 5 !== 0,
      why: i % 5 !== 0 ? 'same text as a unit in the disk cache' : 'the text is new: its loops changed',
      ms: i % 5 !== 0 ? 0.04 : 90 + i * 1.5,
      lines: 20 + ((i * 37) % 60),
      library: 0
    }))
  };
}

const NOTHING = { added: 0, kept: 0, rewritten: 0, folded: 0, removed: 0, fused: 0 };

export function stagesAnswer(doc: IGraphDocument): IStagesAnswer {
  const count = doc.nodes.length;
  const stages: (Partial<IStageCounts> & Pick<IStageCounts, 'name' | 'before' | 'after' | 'ms'>)[] = [
    { name: 'canonicalise', before: count, after: count - 2, ms: 0.8, rewritten: 3, removed: 2 },
    { name: 'fold', before: count - 2, after: count - 3, ms: 0.3, folded: 1 },
    { name: 'dce', before: count - 3, after: count - 3, ms: 0.1 },
    { name: 'schedule', before: count - 3, after: doc.kernels.length, ms: 4.2, fused: 12 }
  ];
  return { version: 2, kind: 'stages', stages: stages.map(stage => ({ ...NOTHING, ...stage })) };
}

export function stageAnswer(doc: IGraphDocument, stage: number): IStageAnswer {
  const nodes: Record<string, INodeFate> = {};
  const plain = doc.nodes.filter(n => n.operands.length > 0);
  plain.slice(0, 3).forEach((n, i) => {
    nodes[n.id] = { state: i === 2 ? 'removed' : 'rewritten', kernel: null, rule: 'x + 0 is x', changed: stage === 0 };
  });
  if (stage >= 1) {
    const folded = doc.nodes.find(n => n.op === 'slice_tensor') ?? plain[3];
    if (folded !== undefined) {
      nodes[folded.id] = { state: 'folded', kernel: null, rule: 'it does not depend on the inputs', changed: stage === 1 };
    }
  }
  if (stage >= 3) {
    for (const kernel of doc.kernels.filter(k => k.nodes.length > 1)) {
      for (const id of kernel.nodes) {
        nodes[id] ??= { state: 'fused', kernel: kernel.id, rule: 'maps of a result join as its epilogue', changed: true };
      }
    }
  }
  return {
    version: 2,
    kind: 'stage',
    stage,
    name: 'x',
    nodes,
    rewrites:
      stage === 2
        ? []
        : plain.slice(0, 3).map((n, i) => ({
            rule: ['times_one', 'reshape_reshape', 'dead'][i] ?? '',
            node: n.id,
            op: n.op,
            into: i === 2 ? [] : [`t${i}`],
            text: ['x * 1 is x', 'a reshape of a reshape is one reshape', 'nothing reads it'][i] ?? ''
          }))
  };
}

export function trialAnswer(kernel: string, source: string): IEditAnswer {
  const base: Omit<IEditAnswer, 'state' | 'can_keep'> = {
    version: 2,
    kernel,
    kernels: [kernel],
    errors: [],
    log: '',
    check: null,
    before_ns: null,
    after_ns: null,
    before_iqr: null,
    after_iqr: null,
    device: 'cpu, 2 threads',
    runs: 40
  };
  if (source.includes('oops')) {
    return {
      ...base,
      state: 'compile_error',
      errors: [{ line: 3, column: 9, text: "use of undeclared identifier 'oops'" }],
      log: "k.c:3:9: error: use of undeclared identifier 'oops'",
      can_keep: false
    };
  }
  if (source.includes('+ 1')) {
    return {
      ...base,
      state: 'wrong',
      check: { ok: false, max_ulp: 8_388_608, max_abs: 1.0, tolerance: '64 ulp', message: 'first at [0, 3]: 1.25, expected 0.25' },
      can_keep: false
    };
  }
  return {
    ...base,
    state: 'measured',
    check: { ok: true, max_ulp: 2, max_abs: 2.4e-7, tolerance: '64 ulp', message: '' },
    before_ns: 912_000,
    after_ns: 744_000,
    before_iqr: 31_000,
    after_iqr: 22_000,
    can_keep: true
  };
}

/** What a kernel would say to a question about `doc`; throws what it would refuse with. */
export function answerTo(doc: IGraphDocument, what: string, args: Record<string, unknown>): unknown {
  switch (what) {
    case 'memory':
      return memoryAnswer(doc);
    case 'compile':
      return compileAnswer(doc);
    case 'passes':
      return typeof args.stage === 'number' ? stageAnswer(doc, args.stage) : stagesAnswer(doc);
    case 'why': {
      const [a, b] = [String(args.a), String(args.b)];
      const kernelOf = (id: string): string | null => doc.kernels.find(k => k.nodes.includes(id))?.id ?? null;
      const isTogether = kernelOf(a) !== null && kernelOf(a) === kernelOf(b);
      const answer: IWhyAnswer = {
        version: 2,
        a,
        b,
        together: isTogether,
        kernel_a: kernelOf(a),
        kernel_b: kernelOf(b),
        reason: isTogether ? `${b} reads ${a} at its own index.` : `Two kernels read ${a}: it has to be in memory.`,
        rule: isTogether ? 'A map joins the group of an operand that it reads at its own index.' : '',
        attempt: isTogether ? `model.reload(options=Options(apart=frozenset({"${b}"})))` : ''
      };
      return answer;
    }
    case 'text': {
      const kernel = doc.kernels.find(k => k.id === args.kernel);
      const answer: ITextAnswer = {
        version: 1,
        kernel: kernel?.id ?? '',
        source: kernel?.source ?? '',
        lines: kernel?.lines ?? [],
        edited: false
      };
      return answer;
    }
    case 'edit':
      return trialAnswer(String(args.kernel), String(args.source));
    case 'keep':
      return { version: 1, kernel: args.kernel, message: `${String(args.kernel)} runs the edited text.` };
    case 'discard':
      return { version: 1, kernel: args.kernel, message: 'back to the generated text' };
    default:
      throw new Error(`there is no answer to '${what}'`);
  }
}
