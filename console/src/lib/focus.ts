// Where the focus goes when its element is removed.
import { tick } from 'svelte';

const openers: HTMLElement[] = []; // the elements that had the focus before each open dialog, the outermost first

/** Call before a dialog opens. The result restores the focus; after several dialogs, to what opened the first one. */
export function rememberFocus(): () => void {
  const previous = document.activeElement instanceof HTMLElement ? document.activeElement : document.body;
  const chain = [...openers, previous];
  openers.push(previous);
  return () => {
    openers.splice(openers.lastIndexOf(previous), 1);
    // A browser restores the focus when a dialog is closed, but not when it is removed or another one is still open.
    void tick().then(() => focusFirst(chain.reverse()));
  };
}

/** Focuses the first of these elements that still exists; else the content, so that Tab continues from the screen. */
export function focusFirst(elements: HTMLElement[] = []): void {
  const active = document.activeElement;
  if (active && active !== document.body && !elements.includes(active as HTMLElement) && active.isConnected) return;
  const target = elements.find((element) => element.isConnected && element !== document.body) ?? document.getElementById('main');
  target?.focus({ preventScroll: target.id === 'main' });
}
