/** Which lines of the user's code and of the generated text belong together, through operations. */

import type { IKernel } from '../../../proto/document';
import type { GraphModel } from '../../model/graph';

/** One line of the user's code. */
export interface ISourceLine {
  file: string;
  line: number;
  text: string;
  /** The operations of the kernel that it wrote, in document order. */
  nodes: string[];
}

export interface ISourceFile {
  file: string;
  lines: ISourceLine[];
}

/** The lines that wrote the operations of a kernel, by file, in the order of the file. */
export function sourceLines(model: GraphModel, kernel: IKernel): ISourceFile[] {
  const files = new Map<string, Map<number, ISourceLine>>();
  for (const id of kernel.nodes) {
    const source = model.node(id)?.node.source ?? null;
    if (source === null) {
      continue;
    }
    const lines = files.get(source.file) ?? new Map<number, ISourceLine>();
    files.set(source.file, lines);
    const known = lines.get(source.line);
    if (known === undefined) {
      const { file, line } = source;
      lines.set(line, { file, line, text: source.text.replace(/\s+$/, ''), nodes: [id] });
    } else {
      known.nodes.push(id);
    }
  }
  return [...files].map(([file, lines]) => ({
    file,
    lines: [...lines.values()].sort((a, b) => a.line - b.line)
  }));
}

/** The operations that a line (1-based) of the generated text computes. */
export function nodesAt(kernel: IKernel, line: number): string[] {
  const found = kernel.lines.filter(([first, last]) => first <= line && line <= last);
  // The narrowest span says most: an outer one covers the loop around it.
  const least = found.reduce((best, [first, last]) => Math.min(best, last - first), Infinity);
  return [...new Set(found.filter(([first, last]) => last - first === least).map(span => span[2]))];
}

/** Which of `count` lines of the generated text compute one of `nodes`; index 0 is line 1. */
export function linesOf(kernel: IKernel, nodes: ReadonlySet<string>, count: number): boolean[] {
  const isMarked = new Array<boolean>(count).fill(false);
  for (const [first, last, node] of kernel.lines) {
    if (nodes.has(node)) {
      isMarked.fill(true, Math.max(0, first - 1), Math.min(count, last));
    }
  }
  return isMarked;
}
