// Keeps a scrolling element at its end while it grows, as long as its reader is there.
const NEAR = 60; // px

export function stickToBottom(stuck: () => boolean, changed: (stuck: boolean) => void): (element: HTMLElement) => () => void {
  return (element) => {
    const scrolled = (): void => changed(element.scrollHeight - element.scrollTop - element.clientHeight < NEAR);
    const grown = new ResizeObserver(() => {
      if (stuck()) element.scrollTop = element.scrollHeight;
    });
    element.addEventListener('scroll', scrolled, { passive: true });
    if (element.firstElementChild) grown.observe(element.firstElementChild);
    grown.observe(element);
    return () => {
      element.removeEventListener('scroll', scrolled);
      grown.disconnect();
    };
  };
}
