/**
 * Mounts a view of sampling on a widget model with the traits of `ISamplingTraits`: controls of the
 * parameters, and below them the chart that the kernel draws of each setting.
 */

import { child, showHtml } from './html';
import { PROTOCOL } from '../proto/messages';
import type {
  ISamplingControl,
  ISamplingTraits,
  SamplingClientMessage,
  SamplingName
} from '../proto/sampling';

/** What this needs of an anywidget model. */
export interface ISamplingModel {
  get<K extends keyof ISamplingTraits>(name: K): ISamplingTraits[K];
  set<K extends keyof ISamplingTraits>(name: K, value: ISamplingTraits[K]): void;
  save_changes(): void;
  on(event: string, callback: (...args: never[]) => void): void;
  off(event: string, callback?: (...args: never[]) => void): void;
  send(content: SamplingClientMessage): void;
}

export interface ISamplingContext {
  model: ISamplingModel;
  el: HTMLElement;
}

/** How long a kernel may take for an answer before the chart is called the last one. */
const PATIENCE_MS = 4000;
const SILENT =
  'The kernel does not answer: it is busy, or it has ended. The chart is that of its last answer.';
const BAD_SEED = 'The seed is an integer from 0 to 18446744073709551615.';
const LARGEST_SEED = 2n ** 64n - 1n;
const DRAWS = [1, 100];
/** Keys that lead out of a control. */
const LEAVING = new Set(['Tab', 'Escape']);

/** Controls are labelled by ids, which have to differ from view to view. */
let views = 0;

/** Whether a widget model is that of a view of sampling; others have another `kind`, or none. */
export function isSampling(context: {
  model: { get(name: string): unknown };
}): context is ISamplingContext {
  return context.model.get('kind') === 'sampling';
}

/** Calls `taken` when a text was typed: at Enter, or when the box is left. */
function onEntered(box: HTMLInputElement, taken: () => void): void {
  box.addEventListener('change', taken);
  box.addEventListener('keydown', event => {
    if (event.key === 'Enter') {
      taken();
    }
  });
}

/** A slider and a box of one parameter, which follow each other and the trait. */
class Control {
  constructor(
    parent: Element,
    prefix: string,
    private readonly _of: ISamplingControl,
    private readonly _changed: (name: SamplingName, value: number) => void
  ) {
    const { name, label, help, least, most, step, limit } = _of;
    const frame = child(parent, 'div', 'mx-rq-control');
    frame.title = help;
    const caption = child(frame, 'label', '', label);
    this._box = child(frame, 'input', '');
    this._slider = child(frame, 'input', '');
    this._box.type = 'number';
    this._slider.type = 'range';
    this._box.id = `${prefix}-${name}`;
    caption.htmlFor = this._box.id;
    this._slider.setAttribute('aria-label', `${label}, slider`);
    const hint = child(frame, 'span', '', help);
    hint.id = `${prefix}-${name}-help`;
    hint.hidden = true;
    for (const input of [this._box, this._slider]) {
      input.min = `${least}`;
      input.step = `${step}`;
      input.setAttribute('aria-describedby', hint.id);
    }
    this._slider.max = `${most}`;
    this._box.max = limit === null ? '' : `${limit}`;
    this._box.step = name === 'top_k' ? '1' : 'any';
    this._slider.addEventListener('input', () => this._take(this._slider));
    onEntered(this._box, () => this._take(this._box));
  }

  get name(): SamplingName {
    return this._of.name;
  }

  /** Shows `value`; the box is left alone while somebody types in it. */
  show(value: number): void {
    this._value = value;
    this._slider.value = `${value}`;
    if (Number(this._box.value) !== value || this._box.value === '') {
      this._box.value = `${Number(value.toPrecision(6))}`;
    }
    this._slider.setAttribute('aria-valuetext', `${Number(value.toPrecision(6))}`);
  }

  private _take(input: HTMLInputElement): void {
    const value = input.valueAsNumber;
    if (Number.isFinite(value) && value !== this._value) {
      this.show(value);
      this._changed(this.name, value);
    }
  }

  private _value = NaN;
  private readonly _box: HTMLInputElement;
  private readonly _slider: HTMLInputElement;
}

export function renderSampling({ model, el }: ISamplingContext): () => void {
  views += 1;
  const prefix = `mx-rq-${views}`;
  const style = document.createElement('style');
  style.textContent = model.get('css');
  el.append(style);
  const root = child(el, 'div', 'mx-rq');
  root.setAttribute('role', 'group');
  // Arrows and Enter are those of the controls, and none of the notebook's.
  root.setAttribute('data-lm-suppress-shortcuts', 'true');
  root.addEventListener('keydown', event => {
    if (event.target instanceof HTMLInputElement && !LEAVING.has(event.key)) {
      event.stopPropagation();
    }
  });
  const head = child(root, 'div', 'mx-rq-head');
  const section = child(root, 'section', '');
  const grid = child(section, 'div', 'mx-rq-controls');
  let timer = 0;
  let silence = '';

  const problem = (): void => {
    const text = model.get('problem') || silence;
    if (said.textContent !== text) {
      said.textContent = text;
    }
  };
  /** From now on the kernel has some time to answer. */
  const wait = (): void => {
    window.clearTimeout(timer);
    timer = window.setTimeout(() => {
      silence = SILENT;
      problem();
    }, PATIENCE_MS);
  };
  const answered = (): void => {
    window.clearTimeout(timer);
    silence = '';
    problem();
  };
  const controls = model.get('controls').map(
    of =>
      new Control(grid, prefix, of, (name, value) => {
        model.set(name, value);
        model.save_changes();
        wait();
      })
  );

  const frame = child(grid, 'div', 'mx-rq-control mx-rq-wide');
  const caption = child(frame, 'label', '', 'seed');
  const seed = child(frame, 'input', '');
  seed.type = 'text';
  seed.inputMode = 'numeric';
  seed.id = `${prefix}-seed`;
  caption.htmlFor = seed.id;
  onEntered(seed, () => {
    const text = seed.value.trim();
    if (text === model.get('seed')) {
      answered();
    } else if (/^\d{1,20}$/.test(text) && BigInt(text) <= LARGEST_SEED) {
      model.set('seed', text);
      model.save_changes();
      wait();
    } else {
      silence = BAD_SEED;
      problem();
    }
  });

  const buttons = child(section, 'div', 'mx-rq-buttons');
  for (const count of DRAWS) {
    const button = child(buttons, 'button', '', count === 1 ? 'Draw a token' : `Draw ${count} tokens`);
    button.type = 'button';
    button.addEventListener('click', () => {
      model.send({ type: 'draw', protocol: PROTOCOL, count });
      wait();
    });
  }
  const said = child(section, 'p', 'mx-rq-problem');
  said.setAttribute('role', 'status');
  const chart = child(root, 'div', '');
  chart.setAttribute('aria-live', 'off');

  const showLabel = (): void => {
    head.textContent = model.get('label');
    root.setAttribute('aria-label', model.get('label'));
  };
  const showSeed = (): void => {
    seed.value = model.get('seed');
  };
  const showPage = (): void => showHtml(chart, model.get('page'));
  const listeners: [string, () => void][] = [
    ...controls.map((one): [string, () => void] => [
      `change:${one.name}`,
      () => one.show(model.get(one.name))
    ]),
    ['change:seed', showSeed],
    ['change:label', showLabel],
    ['change:page', showPage],
    ['change:problem', problem],
    ['change:revision', answered]
  ];
  for (const [event, callback] of listeners) {
    model.on(event, callback);
  }
  controls.forEach(one => one.show(model.get(one.name)));
  showSeed();
  showLabel();
  showPage();
  problem();

  return () => {
    window.clearTimeout(timer);
    for (const [event, callback] of listeners) {
      model.off(event, callback);
    }
    el.replaceChildren();
  };
}
