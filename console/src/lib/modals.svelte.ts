// Open modal dialogs, the last one in front. All behind it is inert: what must be seen and used is drawn inside it.
export const modals = $state<{ list: string[] }>({ list: [] });

/** Call the result when it is closed. */
export function opened(id: string): () => void {
  modals.list = [...modals.list, id];
  return () => {
    modals.list = modals.list.filter((other) => other !== id);
  };
}
