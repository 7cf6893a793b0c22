/** What a dashboard is given, and what it asks of whoever mounts it. */

import type { ThemeName } from '../render/theme';
import type { SharedRecording } from './shared';

export interface IDashboardOptions {
  theme?: ThemeName;
  /** Height in CSS pixels; `fill` takes that of the host, `auto` that of the charts. */
  height?: number | 'fill' | 'auto';
  /** Why recording cannot be started or stopped; null when it can. */
  noControl?: string | null;
  /** The host runs the commands by keys of its own. */
  areKeysCommands?: boolean;
  /** One chart alone, by its quantity (`cpu`, `activity`, `processes`…), which fills the room. */
  only?: string;
  /** What it shows together with other views; left out, a recording of its own. */
  shared?: SharedRecording;
}

export interface IDashboardEvents {
  /** Start to record, with this many seconds from sample to sample. */
  startRequested: number;
  stopRequested: undefined;
  /** The whole recording is wanted, to be saved as a file. */
  recordingRequested: undefined;
  /** Samples between these seconds were left out, and are wanted. */
  detailRequested: { start: number; end: number };
  /** What was sent last does not continue what is known: send all. */
  restartRequested: undefined;
  disposed: undefined;
}
