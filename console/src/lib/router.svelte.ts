// The route is in the hash: `#/jobs/ID?status=failed`. Reload, bookmarks and the back button work without the server.

export const SCREENS = ['ask', 'consensus', 'jobs', 'servers', 'skills', 'usage', 'agents', 'settings', 'people', 'account'] as const;
export type Screen = (typeof SCREENS)[number];

export interface Route {
  screen: Screen;
  id: string | null;
  query: URLSearchParams;
}

export function parse(hash: string): Route {
  const [path = '', search = ''] = hash.replace(/^#?\/?/, '').split('?', 2);
  const [name = '', ...rest] = path.split('/');
  const screen = SCREENS.find((candidate) => candidate === name) ?? 'ask';
  let id: string | null = null;
  try {
    id = rest.length > 0 && rest.join('/') ? decodeURIComponent(rest.join('/')) : null;
  } catch {
    id = null; // an invalid % escape
  }
  return { screen, id, query: new URLSearchParams(search) };
}

export function link(screen: Screen, id?: string | null, query?: Record<string, string>): string {
  const search = query ? new URLSearchParams(query).toString() : '';
  return `#/${screen}${id ? `/${encodeURIComponent(id)}` : ''}${search ? `?${search}` : ''}`;
}

export const router = $state<{ route: Route }>({ route: parse(location.hash) });

addEventListener('hashchange', () => {
  router.route = parse(location.hash);
});

export function go(screen: Screen, id?: string | null, query?: Record<string, string>): void {
  location.hash = link(screen, id, query);
}

/** Changes the route without a new entry in the history, for an id that became known after the screen was opened. */
export function replace(screen: Screen, id?: string | null, query?: Record<string, string>): void {
  history.replaceState(null, '', link(screen, id, query));
  router.route = parse(location.hash);
}
