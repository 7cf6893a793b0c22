/** The test hook of a page, `window.__maxlabTest`: its mounted views and dashboards. */

import type { ITestDashboard } from './dashboard/registry';
import type { IListedView, ITestView } from './view/registry';

declare global {
  // A property of the global object can only be declared with `var`.
  var __maxlabTest:
    | { views: ITestView[]; graphViews?: IListedView[]; dashboards?: ITestDashboard[] }
    | undefined;
}
