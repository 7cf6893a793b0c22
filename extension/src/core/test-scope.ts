/** The test hook of a page, `window.__maxlabTest`: its mounted views and dashboards. */

import type { ITestDashboard } from './dashboard/registry';
import type { ITestView } from './view/registry';
import type { GraphView } from './view/view';

declare global {
  // A property of the global object can only be declared with `var`.
  var __maxlabTest:
    | { views: ITestView[]; graphViews?: GraphView[]; dashboards?: ITestDashboard[] }
    | undefined;
}
