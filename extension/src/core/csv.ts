/** Tables as text for spreadsheets and scripts: comma-separated values, as RFC 4180 has them. */

/** A field: a number as it is, not rounded for reading; null where nothing is known. */
export type Field = string | number | boolean | null;

function fieldOf(field: Field): string {
  const text = field === null ? '' : String(field);
  return /[",\r\n]/.test(text) ? `"${text.replace(/"/g, '""')}"` : text;
}

/** The text of a table, its heads first. A head names the unit of what is below it: `time [ns]`. */
export function csvOf(heads: readonly string[], rows: Iterable<readonly Field[]>): string {
  const lines = [heads, ...rows].map(fields => fields.map(fieldOf).join(','));
  return `${lines.join('\r\n')}\r\n`;
}

/** A head with the unit of its column. */
export function headOf(title: string, unit = ''): string {
  return unit === '' ? title : `${title} [${unit}]`;
}
