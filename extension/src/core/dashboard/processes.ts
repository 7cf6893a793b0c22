/** Who takes what of the machine: a table of processes, sorted by what is asked for. */

import { csvOf, headOf, type Field } from '../csv';
import { csvButton } from '../view/copying';
import { button, el } from '../view/dom';
import type { DashboardData } from './data';
import { formatValue } from './format';
import { gpusOf } from './groups';

interface IRow {
  pid: number;
  name: string;
  /** What the process belongs to, in words; empty for what is not of the session. */
  whose: string;
  /** Id of the kernel that it is, or was started by; empty without one. */
  kernel: string;
  cpu: number | null;
  memory: number | null;
  gpu: number;
  /** What it holds of each GPU, in words. */
  gpuWords: string;
}

type Key = 'name' | 'pid' | 'whose' | 'cpu' | 'memory' | 'gpu';

interface IColumnOf {
  key: Key;
  title: string;
  hint: string;
  isNumber: boolean;
  of: (row: IRow) => number | string;
  words: (row: IRow) => string;
  /** What is copied, and its unit; else what `words` says. */
  field?: (row: IRow) => Field;
  unit?: string;
}

const UNKNOWN = 'of another user, or outside of this container';

const COLUMNS: readonly IColumnOf[] = [
  {
    key: 'name',
    title: 'process',
    hint: 'Name of the program',
    isNumber: false,
    of: row => row.name,
    words: row => row.name
  },
  {
    key: 'pid',
    title: 'pid',
    hint: 'Number of the process',
    isNumber: true,
    of: row => row.pid,
    field: row => row.pid,
    words: row => String(row.pid)
  },
  {
    key: 'whose',
    title: 'notebook',
    hint: 'The notebook whose kernel it is, or was started by',
    isNumber: false,
    of: row => row.whose,
    words: row => row.whose
  },
  {
    key: 'cpu',
    title: 'CPU',
    hint: 'Share of all cores over the last seconds',
    isNumber: true,
    of: row => row.cpu ?? -1,
    field: row => row.cpu,
    unit: '%',
    words: row => formatValue(row.cpu, '%')
  },
  {
    key: 'memory',
    title: 'memory',
    hint: 'What it has in memory, shared pages included',
    isNumber: true,
    of: row => row.memory ?? -1,
    field: row => row.memory,
    unit: 'B',
    words: row => formatValue(row.memory, 'B')
  },
  {
    key: 'gpu',
    title: 'GPU memory',
    hint: 'What it holds of the memory of GPUs',
    isNumber: true,
    of: row => row.gpu,
    field: row => row.gpu,
    unit: 'B',
    words: row => row.gpuWords
  }
];

/** The processes at `time`, those of the host and those that hold memory of GPUs as one list. */
export function processRows(data: DashboardData, time: number, hidden: ReadonlySet<string>): IRow[] {
  const rows = new Map<number, IRow>();
  const users = data.usersAt(time);
  for (const [pid, owner, cpu, memory, gpu, name] of users?.rows ?? []) {
    const [kernel = '', notebook = ''] = users?.kernels[owner] ?? [];
    const named = notebook === '' ? `kernel ${kernel.slice(0, 8)}` : notebook;
    rows.set(pid, {
      pid,
      name,
      whose: kernel !== '' ? named : owner === 0 ? '' : 'this session',
      kernel,
      cpu,
      memory,
      gpu,
      gpuWords: gpu > 0 ? formatValue(gpu, 'B') : ''
    });
  }
  const words = new Map<number, string[]>();
  for (const [gpu, held] of Object.entries(data.processesAt(time))) {
    if (hidden.has(gpu)) {
      continue;
    }
    for (const [pid, name, bytes] of held) {
      const known = rows.get(pid);
      const row = known ?? {
        pid,
        name: name === '' ? UNKNOWN : name,
        whose: '',
        kernel: '',
        cpu: null,
        memory: null,
        gpu: 0,
        gpuWords: ''
      };
      const list = words.get(pid) ?? [];
      row.gpu = (list.length === 0 ? 0 : row.gpu) + bytes;
      words.set(pid, [...list, `${gpu} ${formatValue(bytes, 'B')}`]);
      row.gpuWords = words.get(pid)?.join(', ') ?? '';
      rows.set(pid, row);
    }
  }
  return [...rows.values()];
}

export class ProcessCard {
  readonly element = el('section', 'jp-MaxLab-card');
  private readonly _body = el('tbody');
  private readonly _rows = new Map<number, HTMLTableRowElement>();
  private readonly _heads = new Map<Key, HTMLTableCellElement>();
  /** What the rows are sorted by; null has those of the session first, and of each the largest. */
  private _key: Key | null = null;
  private _isDown = true;
  private _said = '';
  private _last: readonly IRow[] = [];

  /**
   * `open` is called with the id of a kernel whose notebook is to be shown.
   */
  constructor(private readonly _open: (kernel: string) => void) {
    const head = el('tr');
    for (const { key, title, hint, isNumber } of COLUMNS) {
      const cell = el('th', isNumber ? 'jp-mod-number' : '');
      cell.scope = 'col';
      const node = button('jp-MaxLab-sort', hint, () => this._sort(key), title);
      node.setAttribute('aria-label', title);
      cell.append(node);
      this._heads.set(key, cell);
      head.append(cell);
    }
    const table = el('table', 'jp-MaxLab-table', el('thead', '', head), this._body);
    table.setAttribute('aria-label', 'Processes');
    this.element.append(
      el('div', 'jp-MaxLab-cardHead', el('h3', '', 'Processes'), csvButton(() => this.csv(), table)),
      el('div', 'jp-MaxLab-tableBox', table)
    );
    this.element.classList.add('jp-mod-wide');
    this.element.dataset.quantity = 'processes';
    this.element.hidden = true;
    this._showOrder();
  }

  show(data: DashboardData, time: number, hidden: ReadonlySet<string>): void {
    this._last = processRows(data, time, hidden);
    const hasGpus = gpusOf(data.columns).length > 0 || this._last.some(row => row.gpu > 0);
    this.element.classList.toggle('jp-mod-noGpu', !hasGpus);
    this.element.hidden = this._last.length === 0;
    this._fill();
  }

  private _sort(key: Key): void {
    // Numbers are asked for from the greatest on, names from A on.
    const isNumber = COLUMNS.some(column => column.key === key && column.isNumber);
    this._isDown = key === this._key ? !this._isDown : isNumber;
    this._key = key;
    this._showOrder();
    this._fill();
  }

  private _showOrder(): void {
    for (const [key, cell] of this._heads) {
      const order = this._isDown ? 'descending' : 'ascending';
      cell.setAttribute('aria-sort', key === this._key ? order : 'none');
    }
  }

  /** The processes as comma-separated values, in the order in which they stand. */
  csv(): string {
    const heads = COLUMNS.map(({ title, unit }) => headOf(title, unit));
    return csvOf(heads, this._sorted().map(row => COLUMNS.map(one => (one.field ?? one.words)(row))));
  }

  private _sorted(): IRow[] {
    const of = COLUMNS.find(column => column.key === this._key)?.of;
    const sign = this._isDown ? -1 : 1;
    return of === undefined
      ? [...this._last].sort(
          (a, b) =>
            Number(a.whose === '') - Number(b.whose === '') ||
            (b.memory ?? -1) - (a.memory ?? -1) ||
            a.pid - b.pid
        )
      : [...this._last].sort((a, b) => {
          const [one, other] = [of(a), of(b)];
          const order =
            typeof one === 'number' && typeof other === 'number'
              ? one - other
              : String(one).localeCompare(String(other));
          return sign * order || a.pid - b.pid;
        });
  }

  private _fill(): void {
    const rows = this._sorted();
    const said = JSON.stringify(rows);
    if (said === this._said) {
      return;
    }
    this._said = said;
    const gone = new Set(this._rows.keys());
    rows.forEach((row, place) => {
      gone.delete(row.pid);
      let node = this._rows.get(row.pid);
      if (node === undefined) {
        node = this._made(row);
        this._rows.set(row.pid, node);
      }
      this._write(node, row);
      // What has the focus keeps it: a row that is in its place stays there.
      if (this._body.children[place] !== node) {
        this._body.insertBefore(node, this._body.children[place] ?? null);
      }
    });
    for (const pid of gone) {
      this._rows.get(pid)?.remove();
      this._rows.delete(pid);
    }
  }

  private _made(row: IRow): HTMLTableRowElement {
    const node = el('tr');
    node.dataset.pid = String(row.pid);
    node.append(...COLUMNS.map(({ isNumber }) => el('td', isNumber ? 'jp-mod-number' : '')));
    return node;
  }

  private _write(node: HTMLTableRowElement, row: IRow): void {
    COLUMNS.forEach(({ key, words }, n) => {
      const cell = node.cells[n];
      const text = words(row);
      if (cell === undefined || cell.textContent === text) {
        return;
      }
      if (key === 'whose' && row.kernel !== '') {
        const { kernel } = row;
        const link = button('jp-MaxLab-link', `Show ${text}`, () => this._open(kernel), text);
        cell.replaceChildren(link);
      } else {
        cell.textContent = text;
        cell.title = key === 'name' || key === 'whose' ? text : '';
      }
    });
  }
}
