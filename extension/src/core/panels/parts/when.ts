/** Loads what a panel shows when it is in front; behind others it waits until it comes to the front. */

export class WhenShown {
  private _isShown = false;
  private _isStale = false;

  constructor(private readonly _load: () => void) {}

  get isShown(): boolean {
    return this._isShown;
  }

  /** What was loaded is out of date. */
  update(): void {
    this._isStale = true;
    this._run();
  }

  shown(isShown: boolean): void {
    this._isShown = isShown;
    this._run();
  }

  private _run(): void {
    if (this._isShown && this._isStale) {
      this._isStale = false;
      this._load();
    }
  }
}
