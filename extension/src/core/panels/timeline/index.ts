/** The timeline panel. */

import type { IPanelType } from '../../view/panel';
import { TIMELINE_STYLES } from './css';
import { TimelinePanel } from './panel';

export const timelinePanel: IPanelType = {
  id: 'timeline',
  title: 'Timeline',
  hint: 'Which kernel ran when, on which thread or stream',
  css: TIMELINE_STYLES,
  isAvailable: view =>
    view.timing.profile === null ? 'No times yet. Profile the model to see when each kernel ran.' : null,
  make: host => new TimelinePanel(host)
};
