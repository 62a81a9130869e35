// Open modal dialogs, the last one in front. Everything behind it is inert, so toasts are drawn inside it.
export const modals = $state<{ list: string[] }>({ list: [] });

/** Registers an open dialog. Call the result when it closes. */
export function registerModal(id: string): () => void {
  modals.list = [...modals.list, id];
  return () => {
    modals.list = modals.list.filter((other) => other !== id);
  };
}
