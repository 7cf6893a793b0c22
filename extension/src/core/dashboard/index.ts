/** The dashboard of a recording, free of any notebook. */

export { Dashboard, type IDashboardEvents, type IDashboardOptions } from './view';
export {
  FrameError,
  type IDetail,
  type IFrame,
  detailOf,
  frameOf,
  readDetail,
  readFrame
} from './wire';
