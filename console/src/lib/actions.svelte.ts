import { untrack } from 'svelte';

// Everything that can be done, for the palette (Ctrl-K). Screens add theirs while they are open.

export interface Action {
  id: string;
  title: string;
  group: string;
  run: () => void | Promise<void>;
  keys?: string; // as tinykeys writes it: "g j"
  command?: string; // the same on the command line
}

export const actions = $state<{ list: Action[] }>({ list: [] });

/** Add actions; the result removes them. For `$effect(() => provide(...))`. */
export function provide(added: Action[]): () => void {
  const ids = added.map((action) => action.id);
  untrack(() => {
    actions.list = [...actions.list.filter((action) => !ids.includes(action.id)), ...added];
  });
  return () => {
    actions.list = actions.list.filter((action) => !ids.includes(action.id));
  };
}
