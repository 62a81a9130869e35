// The screen's state: the listing of one project, and the results of checks.
import { api, ApiError, type Schema } from '../../lib/api';
import { replace, router } from '../../lib/router.svelte';
import { session } from '../../lib/session.svelte';
import { report, show } from '../../lib/toasts.svelte';
import { keyOf, type Check, type Listing, type Server } from './model';
import type { Make } from './steps';

export interface Review {
  title: string;
  make: Make;
  done: string; // the message after writing
  after?: () => void;
}

class Store {
  listing = $state.raw<Listing | null>(null);
  error = $state.raw<unknown>(null);
  loading = $state(false);
  checks = $state.raw<Record<string, Check>>({});
  checking = $state.raw<string[]>([]); // keys of the servers that are being checked
  review = $state.raw<Review | null>(null);
  /** The query of the address without the selected entry: part of every link. */
  readonly kept = $derived.by(() => {
    const query = new URLSearchParams(router.route.query);
    query.delete('at');
    return query.size ? `${query.toString()}&` : '';
  });
  #number = 0;

  get project(): string {
    return router.route.query.get('project') ?? session.about?.project ?? '';
  }

  /** Loads the listing. The newest request wins, in whatever order the responses arrive. */
  async load(): Promise<void> {
    this.#number += 1;
    const number = this.#number;
    this.loading = true;
    try {
      const listing = await api.get<Listing>('/api/servers', { project: this.project });
      if (number !== this.#number) return;
      this.listing = listing;
      this.error = null;
    } catch (error) {
      if (number === this.#number) this.error = error;
    } finally {
      if (number === this.#number) this.loading = false;
    }
  }

  /** Checks one server, or every server that an agent would use. */
  async check(server?: Server, trust = false): Promise<void> {
    const keys = server ? [keyOf(server)] : (this.listing?.servers ?? []).filter(({ shadowed_by }) => shadowed_by === null).map(keyOf);
    this.checking = [...this.checking, ...keys];
    try {
      const target = server && { name: server.name, agents: [server.agent], scope: server.scope };
      const { checks } = await api.post<Schema['ServerChecks']>('/api/servers:check', { project: this.project, trust_folder: trust, ...target });
      this.checks = { ...this.checks, ...Object.fromEntries(checks.map((check) => [keyOf(check), check])) };
      if (!server) show(tally(checks), checks.some(({ status }) => failed(status)) ? { kind: 'bad' } : {});
    } finally {
      this.checking = this.checking.filter((key) => !keys.includes(key));
    }
  }

  async undo(ids: string[]): Promise<void> {
    try {
      for (const id of [...ids].reverse()) await api.post('/api/servers:undo', { id });
      show('Undone: the files are as before.');
    } catch (error) {
      report(error);
    }
    await this.load();
  }
}

export const failed = (status: string): boolean => status === 'failed' || status === 'timeout';

function tally(checks: Check[]): string {
  const good = checks.filter(({ status }) => status === 'ok').length;
  const bad = checks.filter(({ status }) => failed(status)).length;
  return `${good} of ${good + bad} servers answered${bad ? `; ${bad} failed` : ''}.`;
}

export const store = new Store();

/** Changes the address. Null removes a part of the query. */
export function navigate(changes: Record<string, string | null>, id: string | null = router.route.id, push = false): void {
  const query = Object.fromEntries(router.route.query);
  for (const [name, value] of Object.entries(changes)) {
    if (value) query[name] = value;
    else Reflect.deleteProperty(query, name);
  }
  if (push) location.hash = hashOf(id, query);
  else replace('servers', id, query);
}

function hashOf(id: string | null, query: Record<string, string>): string {
  const search = new URLSearchParams(query).toString();
  return `#/servers${id ? `/${encodeURIComponent(id)}` : ''}${search ? `?${search}` : ''}`;
}

/** The address of one entry in the current view. */
export function entryLink(server: Server): string {
  return `#/servers/${encodeURIComponent(server.name)}?${store.kept}at=${server.agent}:${server.scope}`;
}

export async function reveal(server: Server, field: string): Promise<string> {
  const { value } = await api.post<{ value: string }>('/api/servers:reveal', { name: server.name, agent: server.agent, scope: server.scope, project: store.project, field });
  return value;
}

/** Whether the folder must be trusted first. The error names what would run. */
export const needsTrust = (error: unknown): boolean => error instanceof ApiError && /--trust-folder/.test(error.hint ?? '');
