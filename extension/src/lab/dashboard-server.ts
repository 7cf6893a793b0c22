/** What the Jupyter server tells and does about the session's monitor. The other side is `maxlab/lab/server`. */

import { URLExt } from '@jupyterlab/coreutils';
import { ServerConnection } from '@jupyterlab/services';

import { fits, type IDetail, type IFrame, messageOf, readDetail, readFrame } from '../core';
import { readMessage } from '../proto/border';
import { isMachineNow, type IMachineNow } from '../proto/dashboard';
import { isText, record } from '../proto/shape';

export class MonitorError extends Error {}

export class MonitorServer {
  constructor(private readonly _settings: ServerConnection.ISettings) {}

  /** What is newer than `cursor`. */
  async frame(cursor: string): Promise<IFrame> {
    return readFrame(await this._get(`frame?cursor=${encodeURIComponent(cursor)}`));
  }

  /** All samples between two seconds. */
  async detail(start: number, end: number): Promise<IDetail> {
    return readDetail(await this._get(`detail?start=${start}&end=${end}`));
  }

  /** The recording as a file. */
  async recording(): Promise<Uint8Array> {
    return new Uint8Array(await this._get('recording'));
  }

  /** How busy the machine is, whether or not anything is recorded. */
  async now(): Promise<IMachineNow> {
    const found: unknown = await (await this._request('now', { method: 'GET', cache: 'no-store' })).json();
    return readMessage(isMachineNow, found);
  }

  async start(period: number): Promise<void> {
    await this._request('start', { method: 'POST', body: JSON.stringify({ period }) });
  }

  async stop(): Promise<void> {
    await this._request('stop', { method: 'POST', body: '{}' });
  }

  private async _get(path: string): Promise<ArrayBuffer> {
    return (await this._request(path, { method: 'GET', cache: 'no-store' })).arrayBuffer();
  }

  private async _request(path: string, init: RequestInit): Promise<Response> {
    const url = URLExt.join(this._settings.baseUrl, 'maxlab/monitor', path);
    let response: Response;
    try {
      // It adds the token against forged requests.
      response = await ServerConnection.makeRequest(url, init, this._settings);
    } catch (error) {
      throw new MonitorError(`the Jupyter server does not answer: ${messageOf(error)}`);
    }
    if (response.status === 404) {
      throw new MonitorError(
        'the Jupyter server does not run the extension maxlab.lab.server: restart it, and see ' +
          'whether `jupyter server extension list` names it'
      );
    }
    if (!response.ok) {
      const said = (await response.text()).slice(0, 2000);
      throw new MonitorError(reasonIn(said) || `${response.status} ${response.statusText}`);
    }
    return response;
  }
}

/** An error of the Jupyter server; the reason of one that was raised on purpose says more. */
const isError = record({ message: isText });
const isRefusal = record({ message: isText, reason: isText });

/** The `message` of an error of the Jupyter server; empty when it is not one. */
export function reasonIn(text: string): string {
  try {
    const body: unknown = JSON.parse(text);
    return fits(isRefusal, body) ? body.reason || body.message : fits(isError, body) ? body.message : '';
  } catch {
    return '';
  }
}
