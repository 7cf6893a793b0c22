/** Loads an overlay from a file of the server: the kernel reads it, because it knows the names. */

import { InputDialog } from '@jupyterlab/apputils';
import { PathExt } from '@jupyterlab/coreutils';
import type { Contents } from '@jupyterlab/services';
import type { TranslationBundle } from '@jupyterlab/translation';

import { plainFault } from '../core';
import { messageOf } from '../core/narrow';
import { fits, isText, list, record } from '../proto/shape';
import type { IListedView } from './views';

const isFolder = list(record({ path: isText }));

/** The paths of the files in `folder`. */
async function pathsIn(contents: Contents.IManager, folder: string): Promise<string[]> {
  const model = await contents.get(folder, { type: 'directory', content: true });
  const listed: unknown = model.content;
  return fits(isFolder, listed) ? listed.map(({ path }) => path) : [];
}

async function textOf(contents: Contents.IManager, path: string): Promise<string> {
  const model = await contents.get(path, { type: 'file', format: 'text', content: true });
  return String(model.content);
}

/** Asks for a JSON file, and hands it to the kernel of `view`; `beside` is the path of its notebook. */
export async function chooseOverlay(
  view: IListedView,
  contents: Contents.IManager,
  beside: string,
  trans: TranslationBundle
): Promise<void> {
  try {
    const paths = await pathsIn(contents, PathExt.dirname(beside));
    const chosen = await InputDialog.getItem({
      title: trans.__('Load overlay'),
      label: trans.__('A JSON file beside the notebook, or the path of another'),
      items: paths.filter(path => path.endsWith('.json')).sort(),
      editable: true
    });
    const path = chosen.button.accept ? chosen.value : null;
    if (path !== null) {
      const text = await textOf(contents, path);
      view.events.emit('overlayGiven', { name: PathExt.basename(path), text });
    }
  } catch (error) {
    view.showFault('Load overlay', plainFault(messageOf(error)));
  }
}
