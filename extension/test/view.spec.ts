// @vitest-environment jsdom
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import { GraphView } from '../src/core';
import type { ITestView } from '../src/core/view/registry';
import { tokenize } from '../src/core/view/code';
import { render, type IWidgetModel } from '../src/widget';
import { PROTOCOL } from '../src/proto/messages';
import { StubContext } from './canvas';
import { broken, threeOps, transformer, withProfile } from './fixtures';

const mounted: GraphView[] = [];

beforeEach(() => {
  HTMLCanvasElement.prototype.getContext = (() => new StubContext()) as never;
  for (const [name, size] of [['clientWidth', 900], ['clientHeight', 500]] as const) {
    Object.defineProperty(HTMLElement.prototype, name, { configurable: true, get: () => size });
  }
  globalThis.ResizeObserver = class {
    constructor(private readonly _call: () => void) {}
    observe(): void {
      this._call();
    }
    unobserve(): void {}
    disconnect(): void {}
  } as never;
});

afterEach(() => {
  mounted.splice(0).forEach(view => view.dispose());
  document.body.replaceChildren();
});

async function mount(doc: unknown): Promise<{ view: GraphView; test: ITestView; root: HTMLElement }> {
  const view = new GraphView(document.body, { noProfile: null });
  view.stage.reducedMotion = true;
  mounted.push(view);
  view.setDocument(doc);
  await view.layoutDone();
  const { views } = (globalThis as never as { __maxlabTest: { views: ITestView[] } }).__maxlabTest;
  return { view, test: views[views.length - 1]!, root: view.element };
}

function press(target: Element, key: string, init: KeyboardEventInit = {}): void {
  target.dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true, cancelable: true, ...init }));
}

function focused(): string {
  return document.activeElement?.textContent ?? '';
}

describe('view', () => {
  it('shows a graph and tells tests where everything is', async () => {
    const { test } = await mount(threeOps());
    expect(test.nodes().map(n => n.label)).toEqual(['x', 'mul', 'add', 'gelu', 'output']);
    expect(test.nodes().every(n => n.rect.w > 20 && n.rect.h > 10)).toBe(true);
    expect(test.edges()).toBe(4);
  });

  it('folds and unfolds, keeping what else is open', async () => {
    const { test } = await mount(transformer(6));
    expect(await test.expand('encoder.layers.0..5')).toBe(true);
    const before = test.nodes().length;
    expect(await test.expand('encoder.layers.0')).toBe(true);
    expect(test.nodes().length).toBeGreaterThan(before);
    expect(await test.expand('encoder.layers.3')).toBe(true);
    expect(test.nodes().filter(n => n.expanded && n.label.startsWith('layers.')).length).toBe(2);
    await test.collapse('encoder.layers.0');
    await test.collapse('encoder.layers.3');
    expect(test.nodes().length).toBe(before);
    expect(await test.expand('no.such.scope')).toBe(false);
  });

  it('explains documents that cannot be drawn, and recovers', async () => {
    const { view, root } = await mount({ format: 'other' });
    expect(root.querySelector('[role="alert"]')?.textContent).toContain('expected format');
    view.setDocument(threeOps());
    expect(root.querySelector<HTMLElement>('.jp-MaxLab-message')?.hidden).toBe(true);
  });

  it('inspects an operation: source, types, time, kernel, C', async () => {
    const doc = withProfile(transformer(2));
    const { test } = await mount(doc);
    const gelu = doc.nodes.find(n => n.op === 'gelu')!;
    test.select([gelu.id]);
    await test.layoutDone();
    const text = test.inspectorText();
    for (const part of ['gelu', 'cell [7], line', 'f32[batch, seq, 1536]', 'GFLOP/s', 'GB/s', '≈', 'gemm_f32']) {
      expect(text).toContain(part);
    }
    expect(test.kernelOf(gelu.id)).toMatch(/^k\d+$/);
    expect(document.querySelectorAll('.jp-MaxLab-codeLine.jp-mod-marked').length).toBe(9);
    expect(test.selection).toEqual([gelu.id]);
  });

  it('opens on the error', async () => {
    const { test, root } = await mount(broken());
    expect(test.selection).toHaveLength(1);
    expect(root.querySelector('.jp-MaxLab-error')?.textContent).toContain('ML203');
    expect(test.inspectorText()).toContain('transpose the right operand');
  });

  it('never turns text of a document into markup', async () => {
    const doc = threeOps();
    const evil = '<img src=x onerror="globalThis.hacked=1">';
    doc.name = evil;
    doc.nodes[0]!.op = evil;
    doc.nodes[0]!.attrs = { [evil]: evil };
    doc.nodes[0]!.source!.text = evil;
    doc.error = { code: evil, message: evil, fix: evil, node: doc.nodes[0]!.id };
    const { root, test } = await mount(doc);
    test.execute('help');
    expect(root.querySelector('img')).toBeNull();
    expect(root.textContent).toContain(evil);
  });

  it('keeps fold and selection through a new revision', async () => {
    const { view, test } = await mount(transformer(3));
    await test.expand('encoder.layers.0..2');
    await test.expand('encoder.layers.1');
    const id = test.nodes().find(n => n.scope === 'encoder.layers.1' && n.kind === 'node')!.id;
    test.select([id]);
    view.setDocument({ ...withProfile(transformer(3)), revision: 2 });
    await view.layoutDone();
    expect(test.selection).toEqual([id]);
    expect(test.nodes().find(n => n.label === 'layers.1')?.expanded).toBe(true);
    expect(test.isHeat).toBe(true);
  });

  it('unfolds a box that comes back if it was unfolded when it went', async () => {
    const document = transformer(2);
    const { view, test } = await mount(document);
    const key = 'encoder.layers.1';
    await test.expand('encoder.layers.0..1');
    await test.expand(key);
    expect(view.expanded.has(key)).toBe(true);
    // Its operations stand outside of it, as when a group is dissolved by undo.
    const isIn = (path: string): boolean => path === key || path.startsWith(`${key}.`);
    const nodes = document.nodes.map(node => ({ ...node, scope: isIn(node.scope) ? '' : node.scope }));
    view.setDocument({ ...document, nodes, scopes: document.scopes.filter(scope => !isIn(scope.path)) });
    await view.layoutDone();
    expect(view.model.boxes.has(key)).toBe(false);
    view.setDocument(document);
    await view.layoutDone();
    expect(view.expanded.has(key)).toBe(true);
  });

  it('finds, counts and walks through matches, unfolding what hides them', async () => {
    const { view, root, test } = await mount(transformer(4));
    view.search('softmax');
    expect(root.querySelector('.jp-MaxLab-searchCount')?.textContent).toBe('4');
    await view.stepMatch(1);
    await view.stepMatch(1);
    expect(root.querySelector('.jp-MaxLab-searchCount')?.textContent).toBe('2 of 4');
    expect(test.nodes().filter(n => n.label === 'softmax')).toHaveLength(2);
    await view.stepMatch(-1);
    await view.stepMatch(-1);
    expect(root.querySelector('.jp-MaxLab-searchCount')?.textContent).toBe('4 of 4');
  });
});

describe('keyboard', () => {
  it('walks along edges, in and out of boxes, with words for each step', async () => {
    const { view, root } = await mount(threeOps());
    view.execute('focus-graph');
    expect(focused()).toBe('input x, f32[batch, 2048]');
    press(document.activeElement!, 'ArrowDown');
    expect(focused()).toBe('mul, f32[batch, 2048]');
    press(document.activeElement!, 'ArrowDown');
    press(document.activeElement!, 'ArrowDown');
    press(document.activeElement!, 'ArrowDown');
    expect(focused()).toContain('output');
    press(document.activeElement!, 'ArrowDown');
    expect(root.querySelector('[role="status"]')?.textContent).toBe('nothing below');
    press(document.activeElement!, 'Home');
    expect(focused()).toContain('input x');
    expect(view.selection).toEqual([]);
  });

  it('unfolds with Enter and keeps the focus', async () => {
    const { view, test } = await mount(transformer(2));
    await test.expand('encoder.layers.0..1');
    const layer = view.scene!.items.find(i => i.label === 'layers.0')!;
    view.goTo(layer);
    press(document.activeElement!, 'Enter');
    await view.layoutDone();
    expect(document.activeElement?.getAttribute('aria-expanded')).toBe('true');
    expect(focused()).toContain('layers.0');
    press(document.activeElement!, 'ArrowDown', { altKey: true });
    expect(focused()).toContain('attention');
    press(document.activeElement!, 'ArrowUp', { altKey: true });
    press(document.activeElement!, 'Enter');
    await view.layoutDone();
    expect(test.nodes().find(n => n.label === 'layers.0')?.expanded).toBe(false);
  });

  it('keeps one item of the tree in the tab order, with its place in the set', async () => {
    const { view, root } = await mount(transformer(6));
    view.execute('focus-graph');
    const rows = [...root.querySelectorAll<HTMLElement>('[role="treeitem"]')];
    expect(rows.filter(r => r.tabIndex === 0)).toHaveLength(1);
    expect(rows.every(r => r.hasAttribute('aria-level') && r.hasAttribute('aria-posinset'))).toBe(true);
    expect(root.getAttribute('data-lm-suppress-shortcuts')).toBe('true');
  });

  it('leaves typing alone and names every button', async () => {
    const { view, root } = await mount(threeOps());
    const spy = vi.spyOn(view, 'execute');
    press(view.bar.search, 'h');
    press(view.bar.search, 'f');
    expect(spy).not.toHaveBeenCalled();
    for (const node of root.querySelectorAll('button')) {
      expect(node.getAttribute('aria-label')).toBeTruthy();
    }
  });

  it('says why profiling is not possible', async () => {
    const { view, root } = await mount(threeOps());
    const asked = vi.fn();
    view.events.on('profileRequested', asked);
    view.execute('profile');
    expect(asked).toHaveBeenCalledTimes(1);
    view.setNoProfile('the kernel is gone');
    view.execute('profile');
    expect(asked).toHaveBeenCalledTimes(1);
    const button = root.querySelector('[data-command="profile"]');
    expect(button?.getAttribute('aria-disabled')).toBe('true');
    expect(button?.getAttribute('aria-label')).toContain('the kernel is gone');
  });
});

class FakeModel implements IWidgetModel {
  readonly listeners = new Map<string, ((...args: never[]) => void)[]>();
  readonly sent: unknown[] = [];
  saved = 0;
  readonly traits: Record<string, unknown> = { doc: null, selection: [], height: 400, theme: 'light', not_live: '', no_model: '' };
  get(name: string): never {
    return this.traits[name] as never;
  }
  set(name: string, value: unknown): void {
    this.traits[name] = value;
  }
  save_changes(): void {
    this.saved += 1;
  }
  on(event: string, callback: (...args: never[]) => void): void {
    this.listeners.set(event, [...(this.listeners.get(event) ?? []), callback]);
  }
  off(event: string, callback?: (...args: never[]) => void): void {
    this.listeners.set(event, (this.listeners.get(event) ?? []).filter(c => c !== callback));
  }
  send(content: unknown): void {
    this.sent.push(content);
  }
  emit(event: string, ...args: unknown[]): void {
    this.listeners.get(event)?.forEach(c => (c as (...a: unknown[]) => void)(...args));
  }
}

describe('widget', () => {
  const views = (): ITestView[] =>
    (globalThis as never as { __maxlabTest: { views: ITestView[] } }).__maxlabTest.views;

  it('takes a document in parts, syncs the selection and asks for what it lacks', async () => {
    const model = new FakeModel();
    const done = render({ model, el: document.body });
    expect(model.sent).toEqual([{ type: 'need_document', protocol: PROTOCOL }]);
    const doc = withProfile(transformer(1));
    doc.kernels.forEach(k => (k.source = null));
    const bytes = new TextEncoder().encode(JSON.stringify(doc));
    const half = Math.floor(bytes.length / 2);
    const part = { type: 'document', protocol: PROTOCOL, revision: 1, count: 2, encoding: 'json' };
    model.emit('msg:custom', { ...part, index: 1 }, [new DataView(bytes.slice(half).buffer)]);
    model.emit('msg:custom', { ...part, index: 0 }, [new DataView(bytes.slice(0, half).buffer)]);
    await vi.waitFor(() => expect(views()[views().length - 1]!.nodes().length).toBeGreaterThan(5));
    const view = views()[views().length - 1]!;
    const gelu = doc.nodes.find(n => n.op === 'gelu')!.id;
    view.select([gelu]);
    await view.layoutDone();
    expect(model.traits.selection).toEqual([gelu]);
    const kernel = view.kernelOf(gelu)!;
    expect(model.sent).toContainEqual({ type: 'source', protocol: PROTOCOL, kernel });
    model.emit('msg:custom', {
      type: 'source',
      protocol: PROTOCOL,
      kernel,
      source: 'int k(void);',
      lines: [[1, 1, gelu]]
    });
    expect(view.inspectorText()).toContain('int k(void);');
    view.execute('profile');
    expect(model.sent).toContainEqual({ type: 'profile', protocol: PROTOCOL });
    done();
  });

  it('lives on after messages that it cannot read, and says what was wrong', async () => {
    const model = new FakeModel();
    model.traits.doc = transformer(1);
    const done = render({ model, el: document.body });
    const warn = vi.spyOn(console, 'warn').mockImplementation(() => undefined);
    const view = views()[views().length - 1]!;
    await view.layoutDone();
    const { length } = view.nodes();
    const wrong: [unknown, string][] = [
      [null, 'expected an object, got null'],
      [{ type: 'profile', protocol: 9, status: 'done' }, 'it speaks version 9 of the protocol'],
      [{ type: 'melt', protocol: PROTOCOL }, 'type: expected "bundle" or'],
      [{ type: 'source', protocol: PROTOCOL, kernel: 3, source: '', lines: [] }, 'kernel: expected text, got 3'],
      [{ type: 'source', protocol: PROTOCOL, kernel: 'k0', source: '', lines: [[1, 'n0']] }, 'lines[0]: expected a list of 3'],
      [{ type: 'profile', protocol: PROTOCOL, status: 'odd' }, 'status: expected "running" or'],
      [{ type: 'answer', protocol: PROTOCOL, id: 'x', ok: true }, 'id: expected a whole number']
    ];
    for (const [content, words] of wrong) {
      model.emit('msg:custom', content);
      expect(warn.mock.lastCall?.[0], words).toContain(words);
    }
    expect(view.nodes()).toHaveLength(length);
    warn.mockRestore();
    done();
  });

  it('shows one model twice and leaves nothing behind', async () => {
    const model = new FakeModel();
    model.traits.doc = transformer(2);
    const before = views().length;
    const hosts = [document.createElement('div'), document.createElement('div')];
    document.body.append(...hosts);
    const done = hosts.map(el => render({ model, el }));
    await Promise.all(views().slice(before).map(v => v.layoutDone()));
    expect(views()).toHaveLength(before + 2);
    model.traits.selection = [transformer(2).nodes[0]!.id];
    model.emit('change:selection');
    expect(views()[before]!.selection).toEqual(views()[before + 1]!.selection);
    done.forEach(dispose => dispose());
    expect(views()).toHaveLength(before);
    expect(hosts.every(el => el.childElementCount === 0)).toBe(true);
    expect([...model.listeners.values()].every(list => list.length === 0)).toBe(true);
    expect(document.head.querySelector('#jp-MaxLab-styles')).toBeNull();
  });
});

describe('C colours', () => {
  it('keeps every character', () => {
    const state = { inComment: false };
    for (const line of [
      'int k(void *const *b) { return 0x1f + 1.5e-3f; } // done',
      '#pragma omp simd',
      '/* a comment that',
      'goes on */ const char *s = "text \\" // no";',
      "char c = '\\''; x /= y;"
    ]) {
      expect(tokenize(line, state).map(([text]) => text).join('')).toBe(line);
    }
    expect(state.inComment).toBe(false);
  });
});
