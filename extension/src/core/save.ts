/** Hands a file that the page has made to the browser's downloads. */

export function saveAs(name: string, type: string, content: BlobPart): void {
  const url = URL.createObjectURL(new Blob([content], { type }));
  const link = document.createElement('a');
  link.href = url;
  // Browsers refuse or change names with separators and control characters.
  link.download = name.replace(/[\\/:*?"<>|\p{Cc}]+/gu, '_');
  link.click();
  // The download has read the address by the next turn of the event loop in every browser.
  window.setTimeout(() => URL.revokeObjectURL(url), 10_000);
}
