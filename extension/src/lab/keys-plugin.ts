/**
 * The plugin `keys`: what keys do in a view are commands of JupyterLab, bound in this plugin's schema, so
 * that people can change them where they change all others.
 */

import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ITranslator, nullTranslator } from '@jupyterlab/translation';
import { CommandRegistry } from '@lumino/commands';

import { DASHBOARD_LABELS } from '../core';
import { guardKeys } from './guard';
import { CommandIDs, EXTENSION, IViews, NO_ARGUMENTS } from './tokens';
import type { IViewRegistry } from './views';

/** Id in JupyterLab of a command of the view. */
const idOf = (command: string): string => `maxlab:${command}`;
const dashboardIdOf = (command: string): string => `maxlab:dashboard-${command}`;

export const keysPlugin: JupyterFrontEndPlugin<void> = {
  id: `${EXTENSION}:keys`,
  description: 'Binds keys to what can be done with a graph view or a dashboard.',
  autoStart: true,
  requires: [IViews],
  optional: [ITranslator],
  activate: (app: JupyterFrontEnd, views: IViewRegistry, translator: ITranslator | null): void => {
    const trans = (translator ?? nullTranslator).load('maxlab');
    const { commands } = app;
    const known = new Set<string>(Object.values(CommandIDs));
    // A view tells what it can do: what is added to it later needs no word here.
    views.each(view => {
      for (const [command, { label }] of view.commands) {
        const id = idOf(command);
        if (!known.has(id)) {
          known.add(id);
          commands.addCommand(id, {
            label: trans.__(label),
            describedBy: NO_ARGUMENTS,
            isEnabled: () => {
              const found = views.active?.commands.get(command);
              return found !== undefined && (found.isEnabled?.() ?? true);
            },
            isVisible: () => views.active?.commands.has(command) === true,
            execute: () => {
              views.active?.execute(command);
            }
          });
        }
      }
    });
    for (const [command, label] of Object.entries(DASHBOARD_LABELS)) {
      commands.addCommand(dashboardIdOf(command), {
        label: trans.__(label),
        describedBy: NO_ARGUMENTS,
        isEnabled: () => views.dashboard !== null,
        execute: () => {
          views.dashboard?.execute(command);
        }
      });
    }
    views.keysOf = command =>
      commands.keyBindings
        .filter(binding => binding.command === idOf(command))
        .map(({ keys }) => keys.map(key => CommandRegistry.formatKeystroke(key)).join(' '));
    guardKeys(document);
  }
};
