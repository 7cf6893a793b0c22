/** Entry of the layout worker: answers each request with the layouts of its containers. */

import { layoutHierarchy, type ILayoutRequest, type LayoutCache } from './hierarchy';

interface IWorkerScope {
  onmessage: ((event: MessageEvent) => void) | null;
  postMessage(message: unknown): void;
}

const scope = globalThis as unknown as IWorkerScope;
const cache: LayoutCache = new Map();

scope.onmessage = (event: MessageEvent): void => {
  const { id, request } = event.data as { id: number; request: ILayoutRequest };
  const started = performance.now();
  try {
    const results = layoutHierarchy(request, cache, () => performance.now());
    scope.postMessage({ id, results, ms: performance.now() - started });
  } catch (error) {
    scope.postMessage({ id, error: String(error) });
  }
};
