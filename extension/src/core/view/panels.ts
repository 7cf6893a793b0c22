/** The panels of the dock, in the order of their tabs. */

import { advicePanel } from '../panels/advice';
import { checkPanel } from '../panels/check';
import { compilePanel } from '../panels/compile';
import { memoryPanel } from '../panels/memory';
import { passesPanel } from '../panels/passes';
import { rooflinePanel } from '../panels/roofline';
import { runsPanel } from '../panels/runs';
import { sourcePanel } from '../panels/source';
import { timelinePanel } from '../panels/timeline';
import type { IPanelType } from './panel';

export const PANELS: readonly IPanelType[] = [
  timelinePanel,
  rooflinePanel,
  advicePanel,
  memoryPanel,
  compilePanel,
  passesPanel,
  sourcePanel,
  checkPanel,
  runsPanel
];
