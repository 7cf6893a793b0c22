/** What is being typed at a place in Python: a name after `ops.` or `nn.`, an argument, or the value of one. */

/** Characters before the cursor that are read to find the call that it is in. */
const MOST_READ = 6000;

/** What of maxlab is completed: the operations and the layers. */
export type ModuleName = 'ops' | 'nn';

const MODULES: readonly ModuleName[] = ['ops', 'nn'];

/** Where the modules are, as they are imported. */
const PATHS: Readonly<Record<string, ModuleName>> = {
  'maxlab.ops': 'ops',
  'maxlab.graph.ops': 'ops',
  'maxlab.nn': 'nn'
};

/** The names by which a text calls `maxlab.ops` and `maxlab.nn`, and which of the two each is. */
export function modulesIn(text: string): ReadonlyMap<string, ModuleName> {
  const names = new Map<string, ModuleName>();
  if (!/\bmaxlab\b/.test(text)) {
    return names;
  }
  const packages = new Set(['maxlab']);
  for (const [, path = '', alias = ''] of text.matchAll(/^\s*import\s+(maxlab[\w.]*)\s+as\s+(\w+)/gm)) {
    const module = PATHS[path];
    if (path === 'maxlab') {
      packages.add(alias);
    } else if (path === 'maxlab.graph') {
      names.set(`${alias}.ops`, 'ops');
    } else if (module !== undefined) {
      names.set(alias, module);
    }
  }
  let isImported = [...names.values()].includes('ops');
  for (const [, many = '', few = ''] of text.matchAll(
    /^\s*from\s+maxlab(?:\.graph)?\s+import\s+(?:\(([^)]*)\)|([^(\n]+))/gm
  )) {
    for (const part of (many === '' ? few : many).split(',')) {
      const [, name = '', alias = name] = /^\s*(\w+)(?:\s+as\s+(\w+))?/.exec(part) ?? [];
      const module = MODULES.find(one => one === name);
      if (module !== undefined) {
        isImported ||= module === 'ops';
        names.set(alias, module);
      } else if (name === 'graph') {
        names.set(`${alias}.ops`, 'ops');
      }
    }
  }
  for (const one of packages) {
    names.set(`${one}.ops`, 'ops').set(`${one}.graph.ops`, 'ops').set(`${one}.nn`, 'nn');
  }
  if (!isImported) {
    // It may come from another file, as by `from model import *`. `nn` may be that of PyTorch.
    names.set('ops', 'ops');
  }
  return names;
}

export type Typed =
  | { what: 'name'; module: ModuleName; word: string }
  | { what: 'argument'; module: ModuleName; call: string; word: string; given: ReadonlySet<string> }
  | { what: 'value'; module: ModuleName; call: string; argument: string; word: string };

interface IOpened {
  /** What stands before the parenthesis. */
  call: string;
  /** Where the argument at hand begins. */
  start: number;
  given: Set<string>;
}

/** What is being typed at the end of `before`; null where it is nothing of the modules in `names`. */
export function typedAt(before: string, names: ReadonlyMap<string, ModuleName>): Typed | null {
  if (names.size === 0) {
    return null;
  }
  const text = before.slice(-MOST_READ);
  const call = callAround(text);
  if (call === null) {
    return null; // in a text or a comment
  }
  const dotted = /([A-Za-z_][\w.]*)\.(\w*)$/.exec(text);
  const owner = names.get(dotted?.[1] ?? '');
  if (owner !== undefined) {
    return { what: 'name', module: owner, word: dotted?.[2] ?? '' };
  }
  const dot = call.call.lastIndexOf('.');
  const module = dot < 0 ? undefined : names.get(call.call.slice(0, dot));
  if (module === undefined) {
    return null;
  }
  const name = call.call.slice(dot + 1);
  const argument = withoutComments(text.slice(call.start));
  const word = /^\s*(\w*)$/.exec(argument);
  if (word !== null) {
    return { what: 'argument', module, call: name, word: word[1] ?? '', given: call.given };
  }
  const value = /^\s*(\w+)\s*=\s*([\w.]*)$/.exec(argument);
  return value === null
    ? null
    : { what: 'value', module, call: name, argument: value[1] ?? '', word: value[2] ?? '' };
}

function withoutComments(text: string): string {
  return text.replace(/#.*/g, '');
}

/** The call that the end of `text` is in; one without a name outside of all; null in a text or comment. */
function callAround(text: string): IOpened | null {
  const outside: IOpened = { call: '', start: 0, given: new Set() };
  const stack: IOpened[] = [];
  let place = 0;
  while (place < text.length) {
    const char = text[place] ?? '';
    const top = stack[stack.length - 1];
    if (char === '#') {
      const end = text.indexOf('\n', place);
      if (end < 0) {
        return null;
      }
      place = end;
    } else if (char === '"' || char === "'") {
      const end = afterQuotes(text, place, char);
      if (end === null) {
        return null;
      }
      place = end;
      continue;
    } else if (char === '(' || char === '[' || char === '{') {
      const call = char === '(' ? (/[\w.]*$/.exec(text.slice(Math.max(0, place - 200), place))?.[0] ?? '') : '';
      stack.push({ call, start: place + 1, given: new Set() });
    } else if (char === ')' || char === ']' || char === '}') {
      stack.pop();
    } else if (char === ',' && top !== undefined) {
      top.start = place + 1;
    } else if (char === '=' && top !== undefined && text[place + 1] !== '=') {
      const [, name = ''] = /^\s*(\w+)\s*$/.exec(withoutComments(text.slice(top.start, place))) ?? [];
      if (name !== '') {
        top.given.add(name);
      }
    }
    place += 1;
  }
  return stack[stack.length - 1] ?? outside;
}

/** The place after the text in quotes that begins at `place`; null where it does not end. */
function afterQuotes(text: string, place: number, quote: string): number | null {
  const triple = quote.repeat(3);
  if (text.startsWith(triple, place)) {
    const end = text.indexOf(triple, place + 3);
    return end < 0 ? null : end + 3;
  }
  for (let at = place + 1; at < text.length; at += 1) {
    if (text[at] === '\\') {
      at += 1;
    } else if (text[at] === quote) {
      return at + 1;
    } else if (text[at] === '\n') {
      return at; // it does not end, and is no concern of the next line
    }
  }
  return null;
}
