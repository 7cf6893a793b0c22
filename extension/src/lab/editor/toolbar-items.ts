/** What stands at the end of a document's toolbar: whether its kernels are trusted, and its own kernel. */

import type { ISessionContext, ISessionContextDialogs } from '@jupyterlab/apputils';
import type { TranslationBundle } from '@jupyterlab/translation';
import { Widget } from '@lumino/widgets';

import { chooseKernel } from './ending';
import type { DocumentSession } from './session';

/** Says whether the custom kernels of a document are compiled, where it has any; asks when pressed. */
export class TrustIndicator extends Widget {
  constructor(
    private readonly _session: DocumentSession,
    ask: () => Promise<void>,
    private readonly _trans: TranslationBundle
  ) {
    super();
    this.addClass('jp-MaxLab-toolItem');
    this._button.type = 'button';
    this._button.onclick = () => void ask();
    this.node.append(this._button);
    _session.changed.connect(this._show, this);
    this._show();
  }

  override dispose(): void {
    this._session.changed.disconnect(this._show, this);
    super.dispose();
  }

  private _show(): void {
    const { trusted, kernels } = this._session.trust;
    const { _trans: trans, _button: button } = this;
    this.setHidden(this._session.state !== 'open' || kernels.length === 0);
    button.disabled = trusted;
    button.dataset.trusted = String(trusted);
    button.textContent = trusted ? trans.__('Trusted') : trans.__('Not trusted');
    button.title = trusted
      ? trans.__('The kernels of this document are compiled and run')
      : trans.__('The kernels that came with this document are not compiled until you trust it');
  }

  private readonly _button = document.createElement('button');
}

/** The kernel of a document and what it does; another is chosen when pressed. */
export class KernelItem extends Widget {
  constructor(
    private readonly _context: ISessionContext,
    dialogs: ISessionContextDialogs,
    private readonly _trans: TranslationBundle
  ) {
    super();
    this.addClass('jp-MaxLab-toolItem');
    this._button.type = 'button';
    this._button.title = _trans.__('Switch kernel');
    this._button.onclick = () => void chooseKernel(_context, dialogs);
    this.node.append(this._button);
    _context.kernelChanged.connect(this._show, this);
    _context.statusChanged.connect(this._show, this);
    _context.connectionStatusChanged.connect(this._show, this);
    this._show();
  }

  override dispose(): void {
    this._context.kernelChanged.disconnect(this._show, this);
    this._context.statusChanged.disconnect(this._show, this);
    this._context.connectionStatusChanged.disconnect(this._show, this);
    super.dispose();
  }

  private _show(): void {
    const { kernelDisplayName, kernelDisplayStatus, hasNoKernel } = this._context;
    this._button.textContent = hasNoKernel
      ? kernelDisplayName
      : `${kernelDisplayName} · ${this._trans.__(kernelDisplayStatus)}`;
  }

  private readonly _button = document.createElement('button');
}
