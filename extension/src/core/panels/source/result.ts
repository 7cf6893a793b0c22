/** How a trial of an edited kernel went, as DOM. */

import { formatTime } from '../../model/format';
import { button, el, type Child } from '../../view/dom';
import { facts } from '../../view/kernel';
import type { IEditAnswer } from '../../../proto/checks';
import { headline } from './trial';

/** More diagnostics than this are counted. */
const MOST_ERRORS = 30;

/** `1.2e-7` for what is small, `3` for what is whole. */
function short(value: number): string {
  return Number.isInteger(value) && Math.abs(value) < 1e6 ? String(value) : value.toPrecision(2);
}

/** The result block; `goTo` puts the caret of the editor on a line. */
export function trialView(trial: IEditAnswer, goTo: (line: number, column: number | null) => void): HTMLElement {
  const isGood = trial.state === 'measured';
  const block = el(
    'div',
    `jp-MaxLab-trial ${isGood ? 'jp-mod-good' : 'jp-mod-bad'}`,
    el('strong', '', `${isGood ? '✓' : '✗'} ${headline(trial)}`)
  );
  const [first] = trial.log.split('\n');
  if (trial.state === 'crashed' && first !== undefined && first !== '') {
    block.append(el('p', 'jp-MaxLab-sub', first));
  }
  if (trial.errors.length > 0) {
    block.append(errorList(trial, goTo));
  }
  const rows: [string, Child][] = [];
  const { check } = trial;
  if (check !== null) {
    if (check.tolerance !== '') {
      rows.push(['error', check.tolerance]);
    }
    if (check.max_abs !== null) {
      rows.push(['largest difference', check.max_abs === 0 ? 'none' : short(check.max_abs)]);
    }
    if (check.message !== '') {
      rows.push(['check', check.message]);
    }
  }
  const others = trial.kernels.filter(kernel => kernel !== trial.kernel);
  if (others.length > 0) {
    rows.push(['same text in', others.join(', ')]);
  }
  if (rows.length > 0) {
    block.append(facts(rows));
  }
  if (trial.before_ns !== null && trial.after_ns !== null) {
    block.append(bars(trial));
  }
  if (trial.log !== '' && !isGood) {
    const log = el('details', 'jp-MaxLab-log', el('summary', '', trial.state === 'crashed' ? 'What the process said' : 'All that the compiler said'));
    const text = el('pre', 'jp-MaxLab-source', trial.log);
    text.tabIndex = 0;
    log.append(text);
    block.append(log);
  }
  return block;
}

function errorList(trial: IEditAnswer, goTo: (line: number, column: number | null) => void): HTMLElement {
  const list = el('ol', 'jp-MaxLab-diagnostics');
  for (const { line, column, text } of trial.errors.slice(0, MOST_ERRORS)) {
    const where = line === null ? null : `line ${line}`;
    list.append(
      el(
        'li',
        '',
        line === null || where === null
          ? null
          : button('jp-MaxLab-link', `Go to ${where}`, () => goTo(line, column), where),
        el('span', '', text)
      )
    );
  }
  const more = trial.errors.length - MOST_ERRORS;
  if (more > 0) {
    list.append(el('li', 'jp-MaxLab-note', `and ${more} more`));
  }
  return list;
}

/** Before and after, to one scale, with the spread of each. */
function bars(trial: IEditAnswer): HTMLElement {
  const rows: [string, number, number | null][] = [
    ['before', trial.before_ns ?? 0, trial.before_iqr],
    ['after', trial.after_ns ?? 0, trial.after_iqr]
  ];
  const most = Math.max(...rows.map(([, ns, iqr]) => ns + (iqr ?? 0) / 2), 1);
  const list = el('dl', 'jp-MaxLab-bars');
  for (const [name, ns, iqr] of rows) {
    const bar = el('span', 'jp-MaxLab-barFill');
    bar.style.width = `${(ns / most) * 100}%`;
    const track = el('span', 'jp-MaxLab-barTrack', bar);
    if (iqr !== null) {
      const spread = el('span', 'jp-MaxLab-barSpread');
      spread.style.left = `${Math.max(0, ((ns - iqr / 2) / most) * 100)}%`;
      spread.style.width = `${(iqr / most) * 100}%`;
      track.append(spread);
    }
    const words = `${formatTime(ns)}${iqr === null ? '' : ` ± ${formatTime(iqr / 2)}`}`;
    list.append(el('dt', '', name), el('dd', '', track, el('span', '', words)));
  }
  const how = [trial.runs === 0 ? '' : `medians of ${trial.runs} runs each, in turns, ± half the spread of their middle half`, trial.device].filter(Boolean);
  return el('div', '', list, how.length === 0 ? null : el('p', 'jp-MaxLab-note', how.join(' · ')));
}
