/** The gallery: documents that are shipped with maxlab, one of which is chosen to begin a new one. */

import { Dialog, showDialog } from '@jupyterlab/apputils';
import { URLExt } from '@jupyterlab/coreutils';
import { type Contents, ServerConnection } from '@jupyterlab/services';
import type { TranslationBundle } from '@jupyterlab/translation';
import { Widget } from '@lumino/widgets';

import { fits } from '../../core';
import { type ITemplateEntry, isTemplateList, isTemplateText } from '../../proto/editor';
import { isText, list, read, record, type Shape } from '../../proto/shape';

/** What the server answers to a request for the gallery. */
async function ask<T>(
  settings: ServerConnection.ISettings,
  name: string,
  shape: Shape<T>,
  trans: TranslationBundle
): Promise<T> {
  const url = URLExt.join(settings.baseUrl, 'maxlab', 'templates', name);
  const response = await ServerConnection.makeRequest(url, {}, settings);
  if (!response.ok) {
    throw new Error(
      trans.__('The Jupyter server has no templates: maxlab is not installed where it runs (status %1).', String(response.status))
    );
  }
  const answer: unknown = await response.json();
  return read(shape, answer, 'the Jupyter server runs another version of maxlab than this page');
}

/** The choice of one of the documents. */
class Choice extends Widget implements Dialog.IBodyWidget {
  constructor(entries: readonly ITemplateEntry[], trans: TranslationBundle) {
    super();
    this.addClass('jp-MaxLab-gallery');
    for (const [isLesson, title] of [
      [false, trans.__('Templates')],
      [true, trans.__('Lessons')]
    ] as const) {
      const group = document.createElement('fieldset');
      const legend = document.createElement('legend');
      legend.textContent = title;
      group.append(legend);
      for (const { name, title: label, says, lesson } of entries) {
        if (lesson === isLesson) {
          const row = document.createElement('label');
          const input = document.createElement('input');
          input.type = 'radio';
          input.name = 'maxlab-template';
          input.value = name;
          input.checked = this._inputs.length === 0;
          this._inputs.push(input);
          const words = document.createElement('span');
          const strong = document.createElement('strong');
          strong.textContent = label;
          const small = document.createElement('span');
          small.textContent = says;
          words.append(strong, small);
          row.append(input, words);
          group.append(row);
        }
      }
      this.node.append(group);
    }
  }

  getValue(): string {
    return this._inputs.find(({ checked }) => checked)?.value ?? '';
  }

  private readonly _inputs: HTMLInputElement[] = [];
}

const isListing = list(record({ name: isText }));

/** A path in `folder` that no file has. */
async function freePath(contents: Contents.IManager, folder: string, name: string): Promise<string> {
  const found = await contents.get(folder, { content: true });
  const content: unknown = found.content;
  const taken = new Set(fits(isListing, content) ? content.map(entry => entry.name) : []);
  let file = `${name}.mlgraph`;
  for (let number = 1; taken.has(file); number += 1) {
    file = `${name}-${number}.mlgraph`;
  }
  return folder === '' ? file : `${folder}/${file}`;
}

/** Asks for one of the documents unless `name` is one, and writes it below `folder`; null where none is chosen. */
export async function newFromTemplate(
  settings: ServerConnection.ISettings,
  contents: Contents.IManager,
  folder: string,
  name: string,
  trans: TranslationBundle
): Promise<string | null> {
  let chosen = name;
  if (chosen === '') {
    const { templates } = await ask(settings, 'list', isTemplateList, trans);
    const result = await showDialog({
      title: trans.__('New graph from a template'),
      body: new Choice(templates, trans),
      buttons: [Dialog.cancelButton(), Dialog.okButton({ label: trans.__('Create') })]
    });
    if (!result.button.accept || result.value === null || result.value === '') {
      return null;
    }
    chosen = result.value;
  }
  const { text } = await ask(settings, `text?template=${encodeURIComponent(chosen)}`, isTemplateText, trans);
  const path = await freePath(contents, folder, chosen);
  await contents.save(path, { type: 'file', format: 'text', content: text });
  return path;
}
