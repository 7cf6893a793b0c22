/** The plugin `settings`: how graph views start, from JupyterLab's settings. */

import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ISettingRegistry } from '@jupyterlab/settingregistry';

import type { IViewDefaults } from './graph-view';
import { EXTENSION, IViews } from './tokens';
import type { IViewRegistry } from './views';

const ID = `${EXTENSION}:settings`;

/** The defaults that `settings` hold; the schema has checked their values. */
function readDefaults(settings: ISettingRegistry.ISettings): IViewDefaults {
  const value = (name: keyof IViewDefaults): unknown => settings.get(name).composite;
  return {
    theme: value('theme') as IViewDefaults['theme'],
    openInspector: value('openInspector') as boolean,
    fold: value('fold') as IViewDefaults['fold']
  };
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
    settings.changed.connect(apply);
    apply();
  }
};
