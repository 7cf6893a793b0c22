/** The dashboard of a recording, free of any notebook. */

export { Dashboard } from './view';
export { DASHBOARD_LABELS } from './keys';
export type { IDashboardEvents, IDashboardOptions } from './types';
export { CHARTS } from './groups';
export { formatValue } from './format';
export { SHOW_CELL } from './revealing';
export { SharedRecording } from './shared';
export {
  type IDetail,
  type IFrame,
  detailOf,
  frameOf,
  readDetail,
  readFrame
} from './wire';
