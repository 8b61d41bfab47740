// Buttons that change something: they work where the server lets them, and otherwise say why they do not.

import { attribute } from './dom.js';

/** A button that is there but does nothing keeps its focus and tells its reason, unlike one that is `disabled`. */
export class Bound {
  /** `reason(row)` says why not, or null. */
  constructor(live, button, title, reason = () => null) {
    this.live = live;
    this.button = button;
    this.title = title;
    this.reason = reason;
    button.addEventListener('click', (event) => {
      if (this.why() !== null) {
        event.preventDefault();
        event.stopImmediatePropagation();
      }
    }, true);
    this.show = () => {
      if (!button.isConnected && this.shown) {
        live.listeners.delete(this.show);
        return;
      }
      this.shown ||= button.isConnected;
      const why = this.why();
      attribute(button, 'aria-disabled', why === null ? null : 'true');
      attribute(button, 'title', why === null ? title : `${title}. Not now: ${why}`);
    };
    live.listeners.add(this.show);
    this.show();
  }

  why() {
    const machine = this.live.row();
    if (!machine) return 'the machine is not known yet';
    if (!machine.steer) return 'tombolo web was started without --steer, so this page can only look';
    if (!this.live.fresh()) return 'there is no connection to the machine';
    return this.reason();
  }
}
