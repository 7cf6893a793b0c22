/** What stands in the middle of an empty graph that is edited: what to do first. */

import { button, el } from './dom';

export class Beginning {
  readonly element = el('div', 'jp-MaxLab-beginning');

  /** @param run does a command of the view. */
  constructor(run: (command: string) => unknown) {
    const step = (command: string, text: string, title: string): HTMLElement => {
      const node = button('jp-MaxLab-plainButton', title, () => run(command));
      node.textContent = text;
      return node;
    };
    this.element.hidden = true;
    this.element.append(
      el('p', 'jp-MaxLab-beginning-title', 'This graph is empty'),
      el(
        'p',
        '',
        'Begin with an input, such as x of the type float32[batch, 8]. Then add operations that read it, ' +
          'and let the graph give the last one.'
      ),
      el(
        'p',
        'jp-MaxLab-beginning-steps',
        step('edit-input', '1  Add an input', 'Add an input'),
        step('edit-add', '2  Add an operation (A)', 'Add an operation that reads what is selected'),
        el('span', '', '3  Output (O), then Run (X)')
      )
    );
  }

  show(isEmpty: boolean): void {
    this.element.hidden = !isEmpty;
  }
}
