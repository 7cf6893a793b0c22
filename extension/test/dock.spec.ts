// @vitest-environment jsdom
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import { GraphView } from '../src/core';
import { Questions } from '../src/core/view/ask';
import { Dock } from '../src/core/view/dock';
import { readColumn, type IPanelType } from '../src/core/view/panel';
import type { IGraphDocument } from '../src/proto/document';
import { PROTOCOL } from '../src/proto/messages';
import { render, type IWidgetModel } from '../src/widget';
import { StubContext } from './canvas';
import { memoryAnswer } from './explained';
import { threeOps, withProfile } from './fixtures';
import { emptyTimeline } from './timelines';

const mounted: { dispose(): void }[] = [];

beforeEach(() => {
  HTMLCanvasElement.prototype.getContext = (() => new StubContext()) as never;
  for (const [name, size] of [['clientWidth', 900], ['clientHeight', 500]] as const) {
    Object.defineProperty(HTMLElement.prototype, name, { configurable: true, get: () => size });
  }
});

afterEach(() => {
  mounted.splice(0).forEach(item => item.dispose());
  document.body.replaceChildren();
  localStorage.clear();
});

interface ISpy {
  type: IPanelType;
  panel: Record<'update' | 'selected' | 'resized' | 'shown' | 'dispose', ReturnType<typeof vi.fn>>;
}

function spy(id: string, why: string | null = null): ISpy {
  const calls = {
    update: vi.fn(),
    selected: vi.fn(),
    resized: vi.fn(),
    shown: vi.fn(),
    dispose: vi.fn()
  };
  const element = document.createElement('div');
  element.textContent = `panel ${id}`;
  return {
    panel: calls,
    type: {
      id,
      title: id.toUpperCase(),
      hint: `The ${id}`,
      css: `.jp-MaxLab-${id} { color: inherit; }`,
      isAvailable: () => why,
      make: () => ({ element, ...calls })
    }
  };
}

async function mountDock(...spies: ISpy[]): Promise<{ dock: Dock; view: GraphView }> {
  const view = new GraphView(document.body, { noProfile: null, canAsk: true });
  view.setDocument(threeOps());
  await view.layoutDone();
  const dock = new Dock({ view: view.docking, panels: spies.map(s => s.type), changed: () => undefined });
  view.element.append(dock.element);
  mounted.push(dock, view);
  return { dock, view };
}

function press(target: Element, key: string): void {
  target.dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true, cancelable: true }));
}

describe('dock', () => {
  it('makes a panel when its tab is first chosen, and keeps it', async () => {
    const [a, b] = [spy('one'), spy('two')];
    const { dock } = await mountDock(a, b);
    expect(dock.element.hidden).toBe(true);
    expect(dock.open('two')).toBe(true);
    expect(a.panel.update).not.toHaveBeenCalled();
    expect(b.panel.update).toHaveBeenCalledTimes(1);
    expect(b.panel.selected).toHaveBeenCalledWith([]);
    expect(dock.element.textContent).toContain('panel two');
    dock.open('one');
    expect(dock.element.textContent).not.toContain('panel two');
    expect(b.panel.shown.mock.calls).toEqual([[true], [false]]);
    dock.open('two');
    expect(b.panel.update).toHaveBeenCalledTimes(1);
    dock.dispose();
    expect(b.panel.dispose).toHaveBeenCalledTimes(1);
    expect(document.querySelector('#jp-MaxLab-styles-two')).toBeNull();
  });

  it('says why a panel has nothing to show', async () => {
    const { dock } = await mountDock(spy('one', 'profile first'));
    dock.open('one');
    expect(dock.element.textContent).toContain('profile first');
    expect(dock.open('three')).toBe(false);
  });

  it('is worked by keys alone', async () => {
    const { dock } = await mountDock(spy('one'), spy('two'), spy('three'));
    dock.open();
    const tabs = [...dock.element.querySelectorAll<HTMLElement>('[role=tab]')];
    expect(tabs.map(tab => tab.tabIndex)).toEqual([0, -1, -1]);
    press(tabs[0]!, 'ArrowLeft');
    expect(dock.current).toBe('three');
    expect(document.activeElement).toBe(tabs[2]);
    press(tabs[2]!, 'ArrowRight');
    expect(dock.current).toBe('one');
    const splitter = dock.element.querySelector<HTMLElement>('[role=separator]')!;
    const height = Number(splitter.getAttribute('aria-valuenow'));
    press(splitter, 'ArrowUp');
    expect(Number(splitter.getAttribute('aria-valuenow'))).toBe(height + 24);
    for (let i = 0; i < 50; i += 1) {
      press(splitter, 'ArrowDown');
    }
    expect(Number(splitter.getAttribute('aria-valuenow'))).toBe(90);
  });

  it('is as high as it was last made, in whatever view', async () => {
    const heightOf = (dock: Dock): number =>
      Number(dock.element.querySelector('[role=separator]')?.getAttribute('aria-valuenow'));
    const { dock } = await mountDock(spy('one'));
    dock.open();
    const first = heightOf(dock);
    press(dock.element.querySelector('[role=separator]')!, 'ArrowUp');
    const { dock: other } = await mountDock(spy('one'));
    other.open();
    expect(heightOf(other)).toBe(first + 24);
    localStorage.setItem('maxlab:dock-height', '"high"');
    const { dock: third } = await mountDock(spy('one'));
    third.open();
    expect(heightOf(third)).toBe(first);
  });

  it('opens and closes with the view, and hears of selections', async () => {
    const { view } = await mountDock();
    press(view.element, 'd');
    expect(view.dock.isOpen).toBe(true);
    press(view.element, 'd');
    expect(view.dock.isOpen).toBe(false);
  });
});

describe('questions', () => {
  const graph = withProfile(threeOps());
  const memory = memoryAnswer(graph);
  const document: IGraphDocument = { ...graph, answers: { memory } };

  it('are answered by what was saved when there is no kernel', async () => {
    const questions = new Questions(() => false, () => document, () => 'a saved notebook');
    expect(await questions.ask('memory')).toEqual({ data: memory, buffers: [], isSaved: true });
    await expect(questions.ask('memory', { dims: { batch: 1 } })).rejects.toThrow(
      'This needs a running kernel: a saved notebook.'
    );
    await expect(questions.ask('timeline')).rejects.toThrow('needs a running kernel');
  });

  it('find their answers by number, whatever the order', async () => {
    const sent: number[] = [];
    const questions = new Questions(
      asked => sent.push(asked.id) > 0,
      () => document,
      () => null
    );
    const first = questions.ask('memory');
    const second = questions.ask('advice');
    questions.answered(sent[1]!, false, null, 'no times yet', []);
    questions.answered(sent[0]!, true, { ...memory, peak: 9 }, '', [new ArrayBuffer(8)]);
    questions.answered(77, true, null, '', []);
    expect((await first).data).toEqual({ ...memory, peak: 9 });
    await expect(second).rejects.toThrow('no times yet');
    const odd = questions.ask('memory');
    questions.answered(sent[2]!, true, { ...memory, peak: 'much' }, '', []);
    await expect(odd).rejects.toThrow('peak: expected a whole number, got text "much"');
    const third = questions.ask('memory');
    questions.drop('the kernel was restarted');
    await expect(third).rejects.toThrow('restarted');
  });

  it('go through the widget, and columns come back as numbers', async () => {
    const sent: Record<string, unknown>[] = [];
    let hear: (message: unknown, buffers: DataView[]) => void = () => undefined;
    const traits: Record<string, unknown> = { doc: withProfile(threeOps()), not_live: '', no_model: '', height: 400, theme: 'auto', selection: [] };
    const model = {
      get: (name: string) => traits[name],
      set: vi.fn(),
      save_changes: vi.fn(),
      on: (event: string, call: never) => {
        if (event === 'msg:custom') {
          hear = call;
        }
      },
      off: vi.fn(),
      send: (message: Record<string, unknown>) => sent.push(message)
    };
    const views = (): Pick<GraphView, 'docking'>[] =>
      (globalThis as never as { __maxlabTest: { graphViews?: GraphView[] } }).__maxlabTest
        .graphViews ?? [];
    const close = render({ model: model as unknown as IWidgetModel, el: window.document.body });
    mounted.push({ dispose: close });
    const view = views()[views().length - 1]!;
    const asked = view.docking.ask('timeline', { runs: 'one' });
    const { id } = sent.find(message => message.type === 'ask') as { id: number };
    const bytes = new Float64Array([1.5, 2.5]);
    const timeline = emptyTimeline();
    const columns = { ...timeline.columns, start: { buffer: 0, dtype: 'f8' } };
    const answer = { type: 'answer', protocol: PROTOCOL, id, ok: true, error: '', code: '' };
    hear({ ...answer, data: { ...timeline, columns } }, [new DataView(bytes.buffer)]);
    const { data, buffers } = await asked;
    expect([...readColumn(data.columns.start, buffers)]).toEqual([1.5, 2.5]);
    expect([...readColumn([1, 2], [])]).toEqual([1, 2]);
    expect(() => readColumn({ buffer: 4, dtype: 'f8' }, buffers)).toThrow('missing');
    expect(() => readColumn({ buffer: 0, dtype: 'f8' }, [new ArrayBuffer(7)])).toThrow('missing');
  });
});

describe('overlays', () => {
  it('paint what a panel says, and fade the rest', async () => {
    const { view } = await mountDock();
    const ids = view.model.nodes.map(n => n.node.id);
    view.docking.setOverlay(new Map([[ids[0]!, { tone: 'bad', text: '3 NaN' }]]), '✗ wrong');
    await view.layoutDone();
    const { picture } = view.stage;
    const notes = [...(picture?.notes ?? [])].map(([item, note]) => [item.key, note.tone, note.text]);
    expect(notes).toEqual([[ids[0], 'bad', '3 NaN']]);
    expect(view.element.textContent).toContain('✗ wrong');
    view.docking.setOverlay(null);
    await view.layoutDone();
    expect(view.stage.picture?.notes).toBeNull();
    expect(view.element.querySelector<HTMLElement>('.jp-MaxLab-legend')?.hidden).toBe(true);
  });
});
