/** The keys of a dashboard: for its own listener, and for the shortcuts that JupyterLab is given. */

import type { IKey } from '../view/keys';

const key = (command: string, ...keys: string[]): IKey => ({ command, keys, isPlace: true });

export const DASHBOARD_KEYS: readonly IKey[] = [
  key('pause', ' '),
  key('follow', '0', 'Home'),
  key('zoom-in', '+', '='),
  key('zoom-out', '-'),
  key('step-back', 'ArrowLeft'),
  key('step-forward', 'ArrowRight'),
  key('pan-back', 'Shift+ArrowLeft'),
  key('pan-forward', 'Shift+ArrowRight'),
  key('leave', 'Escape')
];

/** What each command does, as JupyterLab's list of commands says it. */
export const DASHBOARD_LABELS: Readonly<Record<string, string>> = {
  pause: 'Pause or follow the newest samples',
  follow: 'Follow the newest samples',
  'zoom-in': 'Show a shorter time',
  'zoom-out': 'Show a longer time',
  'step-back': 'Read the sample before',
  'step-forward': 'Read the sample after',
  'pan-back': 'Move to earlier times',
  'pan-forward': 'Move to later times',
  leave: 'Read the newest samples'
};
