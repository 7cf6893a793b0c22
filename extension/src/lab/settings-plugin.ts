/** The plugin `settings`: how graph views start, from JupyterLab's settings. */

import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ISettingRegistry } from '@jupyterlab/settingregistry';

import { fits } from '../core';
import { isFlag, oneOf, record } from '../proto/shape';
import { EXTENSION, IViews } from './tokens';
import { DEFAULTS, type IViewDefaults, type IViewRegistry } from './views';

/** The schema says the same of the settings. */
const isDefaults = record({
  theme: oneOf('auto', 'light', 'dark'),
  openInspector: isFlag,
  fold: oneOf('automatic', 'folded', 'unfolded'),
  wheel: oneOf('zoom', 'scroll', 'ctrl'),
  names: oneOf('short', 'full'),
  types: oneOf('always', 'zoomed', 'never'),
  minimap: isFlag
});

const ID = `${EXTENSION}:settings`;

/** The defaults that `settings` hold; those of the schema while they hold none. */
function readDefaults(settings: ISettingRegistry.ISettings): IViewDefaults {
  const { composite } = settings;
  return fits(isDefaults, composite) ? composite : DEFAULTS;
}

export const settingsPlugin: JupyterFrontEndPlugin<void> = {
  id: ID,
  description: 'How graph views start.',
  autoStart: true,
  requires: [IViews],
  optional: [ISettingRegistry],
  activate: async (
    _app: JupyterFrontEnd,
    views: IViewRegistry,
    registry: ISettingRegistry | null
  ): Promise<void> => {
    if (!registry) {
      return;
    }
    const settings = await registry.load(ID);
    const apply = (): void => {
      views.defaults = readDefaults(settings);
    };
    views.keepMinimap = isWanted => void settings.set('minimap', isWanted);
    settings.changed.connect(apply);
    apply();
  }
};
