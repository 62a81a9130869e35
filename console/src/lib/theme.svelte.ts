export type Theme = 'system' | 'light' | 'dark';
const KEY = 'counsel.theme';

function currentTheme(): Theme {
  const value = document.documentElement.dataset.theme; // theme-before-paint.js read it before the first paint
  return value === 'light' || value === 'dark' ? value : 'system';
}

export const theme = $state<{ value: Theme }>({ value: currentTheme() });

export function setTheme(value: Theme): void {
  theme.value = value;
  if (value === 'system') delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = value;
  try {
    localStorage.setItem(KEY, value);
  } catch {
    // no storage: the choice lasts until the next reload
  }
}
