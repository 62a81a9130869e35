import { untrack } from 'svelte';

// All actions, for the palette (Ctrl-K). A screen adds its own while it is open.

export interface Action {
  id: string;
  title: string;
  group: string;
  run: () => void | Promise<void>;
  keys?: string; // in the notation of tinykeys: "g j"
  command?: string; // the equivalent command
}

export const actions = $state<{ list: Action[] }>({ list: [] });

/** Adds actions and returns a function that removes them, for `$effect(() => provide(...))`. */
export function provide(additions: Action[]): () => void {
  const ids = additions.map((action) => action.id);
  untrack(() => {
    actions.list = [...actions.list.filter((action) => !ids.includes(action.id)), ...additions];
  });
  return () => {
    actions.list = actions.list.filter((action) => !ids.includes(action.id));
  };
}
