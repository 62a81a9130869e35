// The time, for clocks on the page. It ticks only while something reads it, and not in a hidden tab.
import { createSubscriber } from 'svelte/reactivity';

function ticking(ms: number): () => number {
  const subscribe = createSubscriber((update) => {
    const timer = setInterval(() => {
      if (!document.hidden) update();
    }, ms);
    return () => clearInterval(timer);
  });
  return () => {
    subscribe();
    return Date.now();
  };
}

/** Milliseconds since 1970, updated every second, and every 20 seconds for texts like "2 min ago". */
export const everySecond = ticking(1000);
export const everyTwentySeconds = ticking(20_000);
