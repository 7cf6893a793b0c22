/** What was chosen of kernels that do their work in several ways: a heading and a line each. */

import { el } from '../../view/dom';

/** The section that says it; null where nothing was chosen. */
export function chosenSection({ chosen = [] }: { chosen?: string[] }): HTMLElement | null {
  return chosen.length === 0
    ? null
    : el(
        'section',
        'jp-MaxLab-section jp-MaxLab-chosen',
        el('h3', '', 'Variants of kernels'),
        el('ul', '', ...chosen.map(line => el('li', 'jp-MaxLab-note', line)))
      );
}
