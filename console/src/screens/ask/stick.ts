// Keeps a growing, scrolling element at its end, as long as the reader is there.
const NEAR = 60; // px

export function stickToBottom(isAtEnd: () => boolean, report: (isAtEnd: boolean) => void): (element: HTMLElement) => () => void {
  return (element) => {
    const onScroll = (): void => report(element.scrollHeight - element.scrollTop - element.clientHeight < NEAR);
    const observer = new ResizeObserver(() => {
      if (isAtEnd()) element.scrollTop = element.scrollHeight;
    });
    element.addEventListener('scroll', onScroll, { passive: true });
    if (element.firstElementChild) observer.observe(element.firstElementChild);
    observer.observe(element);
    return () => {
      element.removeEventListener('scroll', onScroll);
      observer.disconnect();
    };
  };
}
