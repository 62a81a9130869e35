// Where the focus goes when what had it is gone.
import { tick } from 'svelte';

const openers: HTMLElement[] = []; // what had the focus before each open dialog, the outermost first

/** Before a dialog opens; the result gives the focus back. Dialogs that close together lead to what opened the first of them. */
export function rememberFocus(): () => void {
  const before = document.activeElement instanceof HTMLElement ? document.activeElement : document.body;
  const chain = [...openers, before];
  openers.push(before);
  return () => {
    openers.splice(openers.lastIndexOf(before), 1);
    // A browser gives the focus back when a dialog is closed, not when it is removed; and not while another one is open.
    void tick().then(() => focusFirst(chain.reverse()));
  };
}

/** The first of these that is still there; else the content, so that Tab goes on from the screen and not from its frame. */
export function focusFirst(elements: HTMLElement[] = []): void {
  const active = document.activeElement;
  if (active && active !== document.body && !elements.includes(active as HTMLElement) && active.isConnected) return;
  const target = elements.find((element) => element.isConnected && element !== document.body) ?? document.getElementById('main');
  target?.focus({ preventScroll: target.id === 'main' });
}
