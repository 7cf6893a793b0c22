import type { JupyterFrontEndPlugin } from '@jupyterlab/application';
import { EXTENSION } from './tokens';
export const settingsPlugin: JupyterFrontEndPlugin<void> = {
  id: `${EXTENSION}:settings`,
  autoStart: true,
  activate: () => {}
};
