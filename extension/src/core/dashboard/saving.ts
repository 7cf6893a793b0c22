/** What a dashboard hands out as files: a picture, a table, the recording itself. */

import type { ITheme } from '../render/theme';
import type { Card } from './cards';
import type { DashboardData } from './data';
import { download, drawPicture, toCsv } from './export';
import type { ISpan } from './range';

export function savePicture(data: DashboardData, cards: readonly Card[], theme: ITheme): void {
  const parts = cards.flatMap(card => {
    const canvas = card.plot?.canvas ?? null;
    return canvas === null ? [] : [{ title: card.title, values: card.words, canvas }];
  });
  const picture = drawPicture(parts, titleOf(data), theme, window.devicePixelRatio || 1);
  picture.toBlob(blob => blob !== null && download(`${nameOf(data)}.png`, blob), 'image/png');
}

export function saveTable(data: DashboardData, shown: ISpan): void {
  download(`${nameOf(data)}.csv`, new Blob([toCsv(data, shown)], { type: 'text/csv' }));
}

export function saveRecording(data: DashboardData, bytes: Uint8Array): void {
  const blob = new Blob([bytes.slice().buffer], { type: 'application/octet-stream' });
  download(`${nameOf(data)}.mlrec`, blob);
}

function titleOf({ state }: DashboardData): string {
  const label = state.label === '' ? '' : ` (${state.label})`;
  return `${state.replay ? state.title || 'Recording' : 'Diagnostics'}${label}`;
}

/** The name of the files, without an ending. */
function nameOf({ state: { epoch, replay, title } }: DashboardData): string {
  if (replay && title !== '') {
    return title.replace(/\.mlrec$/, '').replace(/[^\w.-]+/g, '_');
  }
  const when = epoch > 0 ? new Date(epoch).toISOString().slice(0, 19).replace(/[:T]/g, '-') : 'now';
  return `maxlab-${when}`;
}
