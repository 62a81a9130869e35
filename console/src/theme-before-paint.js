// Runs before the first paint, so that a dark page does not flash white.
(() => {
  let theme = 'system';
  try {
    theme = localStorage.getItem('counsel.theme') ?? 'system';
  } catch {
    // no storage: the system's theme
  }
  if (theme === 'light' || theme === 'dark') document.documentElement.dataset.theme = theme;
})();
