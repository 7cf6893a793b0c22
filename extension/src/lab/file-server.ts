/** What the Jupyter server tells of one file. The other side is `maxlab/lab/server/files.py`. */

import { URLExt } from '@jupyterlab/coreutils';
import { ServerConnection } from '@jupyterlab/services';

import {
  fits,
  type IDetail,
  type IFrame,
  type ISlice,
  type ISliceAsked,
  type IWeightSource,
  messageOf,
  readDetail,
  readFrame,
  readSlice,
  SourceError
} from '../core';
import {
  type IFileState,
  type IModelContents,
  isFileState,
  isModelContents,
  isRefusal,
  isSavedGraph,
  type ISavedGraph,
  isTensorFacts,
  isWeightHeader,
  type ITensorFacts,
  type IWeightHeader
} from '../proto/files';
import { read, type Shape } from '../proto/shape';
import type { IDashboardSource } from './dashboard-feed';

type Question = Record<string, string | number>;

export class FileServer implements IWeightSource, IDashboardSource {
  constructor(
    private readonly _settings: ServerConnection.ISettings,
    /** Where the file is, as the server's contents have it. */
    readonly path: string
  ) {}

  /** What the weight file holds now; later questions are about this state of the file. */
  async header(): Promise<IWeightHeader> {
    const header = await this._json('header', isWeightHeader);
    this._stamp = header.stamp;
    return header;
  }

  async slice({ tensor, rows, columns, at, window: w }: ISliceAsked): Promise<ISlice> {
    const window = [w.top, w.left, w.height, w.width].join(',');
    const asked = { stamp: this._stamp, tensor, rows, columns, at: at.join(','), window };
    return readSlice(await (await this._request('slice', asked)).arrayBuffer());
  }

  facts(tensor: number): Promise<ITensorFacts> {
    return this._json('facts', isTensorFacts, { stamp: this._stamp, tensor });
  }

  /** The graph of a saved run, with its times. */
  async graph(): Promise<ISavedGraph> {
    const graph = await this._json('graph', isSavedGraph);
    this._stamp = graph.stamp;
    return graph;
  }

  /** What a kept model says of itself. */
  async model(): Promise<IModelContents> {
    const model = await this._json('model', isModelContents);
    this._stamp = model.stamp;
    return model;
  }

  /** What the file is now; throws when it is not what was opened. */
  async state(): Promise<IFileState> {
    const state = await this._json('state', isFileState, { stamp: this._stamp });
    this._stamp = state.stamp;
    return state;
  }

  /** Whether something of the file was read. */
  get isOpen(): boolean {
    return this._stamp !== '';
  }

  // ---------------------------------------------------------------- a recording
  async frame(cursor: string): Promise<IFrame> {
    if (this._stamp === '') {
      await this.state();
    }
    return readFrame(await this._buffer('frame', { stamp: this._stamp, cursor }));
  }

  async detail(start: number, end: number): Promise<IDetail> {
    return readDetail(await this._buffer('detail', { stamp: this._stamp, start, end }));
  }

  async recording(): Promise<Uint8Array> {
    return new Uint8Array(await this._buffer('bytes', { stamp: this._stamp }));
  }

  start(): Promise<void> {
    return Promise.reject(new SourceError('a saved recording cannot go on', '', ''));
  }

  stop(): Promise<void> {
    return Promise.resolve();
  }

  // ---------------------------------------------------------------- requests
  private async _json<T>(name: string, shape: Shape<T>, asked: Question = {}): Promise<T> {
    const answer: unknown = await (await this._request(name, asked)).json();
    return read(shape, answer, 'the Jupyter server runs another version of maxlab than this page');
  }

  private async _buffer(name: string, asked: Question): Promise<ArrayBuffer> {
    return (await this._request(name, asked)).arrayBuffer();
  }

  private async _request(name: string, asked: Question): Promise<Response> {
    const query = URLExt.objectToQueryString({ path: this.path, ...asked });
    const url = URLExt.join(this._settings.baseUrl, 'maxlab/files', name) + query;
    let response: Response;
    try {
      const init: RequestInit = { method: 'GET', cache: 'no-store' };
      response = await ServerConnection.makeRequest(url, init, this._settings);
    } catch (error) {
      throw new SourceError(
        `the Jupyter server does not answer: ${messageOf(error)}`,
        '',
        'see whether it still runs'
      );
    }
    if (!response.ok) {
      throw refusedBy(response.status, (await response.text()).slice(0, 4000));
    }
    return response;
  }

  private _stamp = '';
}

/** The error of an answer that is none. */
export function refusedBy(status: number, text: string): SourceError {
  let body: unknown = null;
  try {
    body = JSON.parse(text);
  } catch {
    // A page of a proxy, or of a server without the extension.
  }
  if (fits(isRefusal, body)) {
    return new SourceError(body.message, body.code, body.fix);
  }
  if (status === 404) {
    return new SourceError(
      'The Jupyter server does not run the extension maxlab.lab.server, which this needs.',
      '',
      'Install maxlab where the server runs, not in the kernel alone, from its checkout:  pip install .\n' +
        'then:  jupyter server extension enable maxlab.lab.server\n' +
        'and start the server again.'
    );
  }
  if (status === 401 || status === 403) {
    return new SourceError('The Jupyter server does not let you read this file.', '', 'Log in again.');
  }
  return new SourceError(`The Jupyter server answered with status ${status}.`, '', '');
}
