/** The roofline panel. */

import type { IPanelType } from '../../view/panel';
import { ROOFLINE_STYLES } from './css';
import { RooflinePanel } from './panel';

export const rooflinePanel: IPanelType = {
  id: 'roofline',
  title: 'Roofline',
  hint: 'How near each kernel is to what this machine can do',
  css: ROOFLINE_STYLES,
  isAvailable: view =>
    view.timing.profile === null
      ? 'No times yet. Profile the model to see how near its kernels are to the ceilings.'
      : null,
  make: host => new RooflinePanel(host)
};
