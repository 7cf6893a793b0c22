/**
 * The plugin `cell-progress`: what a running cell does and how far it is, in a row below the cell, with a
 * button that ends it. The row is of the page alone: nothing of it is saved.
 */

import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { INotebookTracker, type NotebookPanel } from '@jupyterlab/notebook';
import type { Kernel, KernelMessage } from '@jupyterlab/services';
import type { Widget } from '@lumino/widgets';

import { addStyles, fits, WORK_STYLES, WorkRow } from '../core';
import { isCellProgress, PROTOCOL, type ICellCancel, type ICellProgress } from '../proto/messages';
import { isText, record } from '../proto/shape';
import { EXTENSION } from './tokens';

/** The comm that the kernel's messages name; nobody opens it. */
const CHANNEL = 'maxlab.progress';
/** The comm that is opened to cancel. */
const TARGET = 'maxlab.cancel';

const isTold = record({
  comm_id: isText,
  data: isCellProgress
});

/** A cell of code that was run: other cells have no outputs, and those that never ran no request. */
const isRun = record({
  outputArea: record({
    future: record({
      msg: record({ header: record({ msg_id: isText }) })
    })
  })
});

class CellRow {
  private readonly _element = document.createElement('div');
  private readonly _row: WorkRow;
  private readonly _unstyle: () => void;

  constructor(cell: Widget, title: string, cancel: () => void) {
    this._row = new WorkRow(title, cancel);
    this._element.className = 'jp-MaxLab-cellProgress';
    this._element.append(this._row.element);
    // Behind the outputs, where the next one will come.
    cell.node.insertBefore(this._element, cell.node.querySelector(':scope > .jp-CellFooter'));
    this._unstyle = addStyles(this._element, 'jp-MaxLab-workStyles', WORK_STYLES);
  }

  told(told: ICellProgress): void {
    this._row.told(told);
  }

  dispose(): void {
    this._row.dispose();
    this._element.remove();
    this._unstyle();
  }
}

/** Id of the request that a cell waits for, or waited for last; null when it never ran. */
function runOf(cell: Widget): string | null {
  return fits(isRun, cell) ? cell.outputArea.future.msg.header.msg_id : null;
}

/** The rows of one notebook. */
class CellRows {
  private readonly _rows = new Map<number, CellRow>();

  constructor(private readonly _panel: NotebookPanel) {
    const { sessionContext } = _panel;
    sessionContext.iopubMessage.connect((_, message) => this._received(message));
    // A kernel that is gone ends nothing any more.
    sessionContext.statusChanged.connect((_, status) => {
      if (status !== 'busy') {
        this._clear();
      }
    });
    _panel.disposed.connect(() => this._clear());
  }

  private _received(message: KernelMessage.IMessage): void {
    if (message.header.msg_type !== 'comm_msg' || !fits(isTold, message.content)) {
      return;
    }
    const { comm_id: channel, data } = message.content;
    if (channel !== CHANNEL) {
      return;
    }
    if (data.status === 'over') {
      this._drop(data.work);
      return;
    }
    let row = this._rows.get(data.work);
    if (row === undefined) {
      const cell = this._cellOf(message);
      if (cell === null) {
        return;
      }
      row = new CellRow(cell, data.title, () => this._cancel(data.work));
      this._rows.set(data.work, row);
    }
    row.told(data);
  }

  /** The cell whose run the message belongs to. */
  private _cellOf({ parent_header: parent }: KernelMessage.IMessage): Widget | null {
    const id = 'msg_id' in parent ? parent.msg_id : null;
    for (const cell of this._panel.content.widgets) {
      if (id !== null && runOf(cell) === id) {
        return cell;
      }
    }
    return null;
  }

  private _cancel(work: number): void {
    const kernel = this._panel.sessionContext.session?.kernel;
    if (kernel !== undefined && kernel !== null) {
      void cancel(kernel, work);
    }
  }

  private _drop(work: number): void {
    this._rows.get(work)?.dispose();
    this._rows.delete(work);
  }

  private _clear(): void {
    for (const work of [...this._rows.keys()]) {
      this._drop(work);
    }
  }
}

/** Asks for an end over a subshell; a kernel without them hears nothing while it runs: it is interrupted. */
async function cancel(kernel: Kernel.IKernelConnection, work: number): Promise<void> {
  if (!kernel.supportsSubshells) {
    await kernel.interrupt();
    return;
  }
  const comm = kernel.createComm(TARGET);
  if ('subshellStarted' in comm) {
    await comm.subshellStarted;
  }
  const wish: ICellCancel = { protocol: PROTOCOL, work };
  comm.open({ ...wish });
}

export const cellProgressPlugin: JupyterFrontEndPlugin<void> = {
  id: `${EXTENSION}:cell-progress`,
  description: 'Shows below a running cell what maxlab does, how far it is, and a button that ends it.',
  autoStart: true,
  requires: [INotebookTracker],
  activate: (_app: JupyterFrontEnd, tracker: INotebookTracker): void => {
    tracker.widgetAdded.connect((_, panel) => {
      void panel.context.ready.then(() => new CellRows(panel));
    });
  }
};
