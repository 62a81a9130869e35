import { ApiError } from './api';

export interface Toast {
  id: number;
  kind: 'good' | 'bad';
  text: string;
  code?: string;
  hint?: string;
  undo?: () => void;
}

let last = 0;
export const toasts = $state<{ list: Toast[]; paused: boolean }>({ list: [], paused: false });

export function show(text: string, options: Partial<Omit<Toast, 'id' | 'text'>> = {}): void {
  last += 1;
  const id = last;
  toasts.list = [...toasts.list.slice(-3), { id, kind: 'good', text, ...options }];
  leave(id, options.undo ? 30_000 : options.kind === 'bad' ? 12_000 : 6_000); // time to think about an undo
}

/** The id of the newest toast. */
export function lastToastId(): number {
  return last;
}

/** Dismisses a toast after a while, but not while the pointer or the focus is on it. */
function leave(id: number, milliseconds: number): void {
  setTimeout(() => (toasts.paused ? leave(id, 3_000) : dismiss(id)), milliseconds);
}

export function dismiss(id: number): void {
  toasts.list = toasts.list.filter((toast) => toast.id !== id);
  if (toasts.list.length === 0) toasts.paused = false;
}

/** Shows an error that belongs to no part of the screen. */
export function report(error: unknown): void {
  if (error instanceof ApiError) show(error.message, { kind: 'bad', code: error.code, ...(error.hint && { hint: error.hint }) });
  else show(error instanceof Error ? error.message : String(error), { kind: 'bad' });
}

export async function copy(text: string, what = 'Copied'): Promise<void> {
  try {
    // Over plain HTTP from another machine there is no `navigator.clipboard`.
    if (window.isSecureContext) await navigator.clipboard.writeText(text);
    else if (!copySelected(text)) throw new Error();
    show(what);
  } catch {
    show('The browser did not allow copying.', { kind: 'bad' });
  }
}

function copySelected(text: string): boolean {
  const previous = document.activeElement;
  const area = document.createElement('textarea');
  area.value = text;
  area.setAttribute('aria-hidden', 'true');
  area.className = 'sr-only';
  (document.querySelector('dialog[open]') ?? document.body).append(area);
  area.select();
  const copied = document.execCommand('copy');
  area.remove();
  if (previous instanceof HTMLElement) previous.focus();
  return copied;
}
