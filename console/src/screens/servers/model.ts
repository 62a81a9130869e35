// The listing of /api/servers, arranged for the screen: by agent and scope, and as a matrix of names and agents.
import type { Schema } from '../../lib/api';

type Values = Record<string, string>;
export type Server = Omit<Schema['Server'], 'env' | 'headers' | 'extras'> & { env: Values; headers: Values; extras: Record<string, unknown> };
export type Problem = Schema['ServerProblem'];
export type Agent = Schema['ServerAgent'];
export type Check = Schema['ServerCheck'];
export type Listing = Omit<Schema['Servers'], 'servers'> & { servers: Server[] };

export interface Place {
  agent: string;
  scope: string;
}

const TITLES: Record<string, string> = { user: 'User', local: 'Local', project: 'Project', plugin: 'Plugin', system: 'System', managed: 'Managed' };
export const FIELDS: Record<string, string> = {
  transport: 'Transport', command: 'Command', args: 'Arguments', env: 'Variables', cwd: 'Working folder', url: 'Address', headers: 'Headers',
  token_env: 'Token from', timeout: 'Time limit', include_tools: 'Only these tools', exclude_tools: 'Without these tools',
};
const MASK = '…';
const ORDER = new Intl.Collator();

export const scopeTitle = (scope: string): string => TITLES[scope] ?? scope;
export const placeId = (place: Place): string => `${place.agent}:${place.scope}`;
export const keyOf = (row: { agent: string; scope: string; path: string; name: string }): string => JSON.stringify([row.agent, row.scope, row.path, row.name]);
export const isMasked = (value: unknown): boolean => typeof value === 'string' && value.includes(MASK);
export const isPresent = (agent: Agent): boolean => agent.scopes.some(({ present }) => present);

/** A title for the name, which may be empty in a file. */
export const titleOf = (name: string): string => name || '(no name)';

export type ServerState = 'on' | 'off' | 'untrusted' | 'pending';

/** As `counsel servers list` says it: on only where the agent would load the server now. */
export function stateOf(server: Server): ServerState {
  if (!server.enabled) return 'off';
  if (server.waits_for === 'trust') return 'untrusted';
  return server.waits_for === 'approval' ? 'pending' : 'on';
}

/** Why an enabled server is not on. */
export function whyWaiting(server: Server, agent: string): string | undefined {
  const state = stateOf(server);
  if (state === 'untrusted') return `${agent} does not trust this folder, so it does not load the server`;
  return state === 'pending' ? `${agent} asks before it uses a project's server` : undefined;
}

/** The command or address in one line. */
export function summary(server: Server): string {
  return server.url ?? [server.command ?? '', ...server.args].join(' ');
}

export function wordsOf(query: string): string[] {
  return query.toLowerCase().split(/\s+/).filter(Boolean);
}

function has(words: string[], ...texts: (string | null | undefined)[]): boolean {
  const text = texts.join(' ').toLowerCase();
  return words.every((word) => text.includes(word));
}

export function matches(server: Server, words: string[]): boolean {
  return words.length === 0 || has(words, server.name, server.transport, scopeTitle(server.scope), summary(server), ...Object.keys(server.env), ...Object.keys(server.headers));
}

/** The problem of a file that cannot be read. Nothing is known about its servers, and nothing is written to it. */
export function fileProblem(listing: Listing, path: string): Problem | undefined {
  return listing.problems.find((problem) => problem.path === path && problem.name === undefined && !problem.editable);
}

export interface ScopeGroup {
  scope: string;
  path: string;
  servers: Server[];
  entries: Problem[]; // entries that the agent cannot use
  problem: Problem | undefined; // the file cannot be read
  notices: Problem[]; // the agent does not load the file or one server, though they can be read
}

export interface AgentGroup {
  agent: Agent;
  scopes: ScopeGroup[];
  count: number;
}

export interface Filter {
  words: string[];
  agent: string;
}

/** Agents that are installed or have servers, with their scopes. With words, only scopes that have a match. */
export function grouped(listing: Listing, filter: Filter): AgentGroup[] {
  return listing.agents.flatMap((agent) => {
    if (filter.agent && filter.agent !== agent.name) return [];
    const servers = listing.servers.filter((server) => server.agent === agent.name);
    const problems = listing.problems.filter((problem) => problem.agent === agent.name);
    if (!filter.agent && !isPresent(agent) && servers.length + problems.length === 0) return [];
    const own = agent.scopes.map(({ scope }) => scope);
    const names = [...new Set([...own, ...servers.map(({ scope }) => scope), ...problems.map(({ scope }) => scope)])];
    const scopes = names.map((scope) => scopeGroup(listing, agent, scope, filter.words, servers, problems));
    const shown = filter.words.length ? scopes.filter((group) => group.servers.length + group.entries.length > 0) : scopes;
    return shown.length ? [{ agent, scopes: shown, count: shown.reduce((sum, group) => sum + group.servers.length, 0) }] : [];
  });
}

function scopeGroup(listing: Listing, agent: Agent, scope: string, words: string[], servers: Server[], problems: Problem[]): ScopeGroup {
  const ownServers = servers.filter((server) => server.scope === scope);
  const ownProblems = problems.filter((problem) => problem.scope === scope);
  const path = agent.scopes.find((agentEntry) => agentEntry.scope === scope)?.path ?? ownServers[0]?.path ?? ownProblems[0]?.path ?? '';
  return {
    scope,
    path,
    servers: ownServers.filter((server) => matches(server, words)),
    entries: ownProblems.filter((problem) => problem.name !== undefined && !problem.editable && has(words, problem.name)),
    problem: fileProblem(listing, path),
    notices: ownProblems.filter((problem) => problem.editable),
  };
}

export function absent(listing: Listing): Agent[] {
  return listing.agents.filter((agent) => !isPresent(agent) && !listing.servers.some((server) => server.agent === agent.name) && !listing.problems.some((problem) => problem.agent === agent.name));
}

// ── the matrix ──

export type CellState = ServerState | 'missing' | 'malformed' | 'unknown';

export interface Cell {
  agent: string;
  state: CellState;
  server: Server | undefined; // the entry that the agent uses
  scopes: string[];
  differs: boolean;
  problem: Problem | undefined;
}

export interface Row {
  name: string;
  cells: Cell[];
  drift: string[];
}

/** The agents of the matrix: the same as on the cards. */
export function columns(listing: Listing, filter: Filter): Agent[] {
  return grouped(listing, { words: [], agent: filter.agent }).map(({ agent }) => agent);
}

export function matrix(listing: Listing, filter: Filter): Row[] {
  const agents = columns(listing, filter);
  const byName = new Map<string, Server[]>();
  for (const [name, servers] of entriesByName(listing)) byName.set(name, servers);
  const broken = listing.problems.filter((problem) => problem.name !== undefined && !problem.editable);
  for (const problem of broken) if (problem.name !== undefined && !byName.has(problem.name)) byName.set(problem.name, []);
  const rows: Row[] = [];
  for (const [name, servers] of byName) {
    const shown = servers.some((server) => matches(server, filter.words)) || has(filter.words, name);
    const relevant = !filter.agent || servers.some(({ agent }) => agent === filter.agent) || broken.some((problem) => problem.name === name && problem.agent === filter.agent);
    if (!shown || !relevant) continue;
    const odd = differing(servers);
    rows.push({ name, drift: driftOf(servers), cells: agents.map((agent) => cell(listing, agent, servers.filter((server) => server.agent === agent.name), broken.find((problem) => problem.name === name && problem.agent === agent.name), odd)) });
  }
  return rows.sort((left, right) => ORDER.compare(left.name, right.name));
}

function cell(listing: Listing, agent: Agent, servers: Server[], problem: Problem | undefined, odd: Set<Server>): Cell {
  const server = servers.find(({ shadowed_by }) => shadowed_by === null) ?? servers[0];
  const unreadable = agent.scopes.map(({ path }) => fileProblem(listing, path)).find(Boolean);
  const base = { agent: agent.name, server, scopes: servers.map(({ scope }) => scope), differs: server !== undefined && odd.has(server) };
  if (server) return { ...base, state: stateOf(server), problem: undefined };
  if (problem) return { ...base, state: 'malformed', problem };
  return { ...base, state: unreadable ? 'unknown' : 'missing', problem: unreadable };
}

export function driftOf(servers: Server[]): string[] {
  return [...new Set(servers.flatMap(({ drift }) => drift))];
}

/** Entries that differ from most others of their name. If only masked secrets differ, all entries. */
export function differing(servers: Server[]): Set<Server> {
  const drift = driftOf(servers);
  const used = servers.filter(({ shadowed_by }) => shadowed_by === null);
  if (drift.length === 0) return new Set();
  const variants = new Map<string, Server[]>();
  for (const server of used) {
    const shape = JSON.stringify(drift.map((field) => fieldText(server, field)));
    variants.set(shape, [...(variants.get(shape) ?? []), server]);
  }
  if (variants.size < 2) return new Set(used);
  const usual = [...variants.values()].reduce((most, list) => (list.length > most.length ? list : most));
  return new Set(used.filter((server) => !usual.includes(server)));
}

/** A field as text, for comparing and showing. */
export function fieldText(server: Server, field: string): string {
  const value = (server as unknown as Record<string, unknown>)[field];
  if (value === null || value === undefined) return '';
  if (Array.isArray(value)) return value.join('\n');
  if (typeof value !== 'object') return String(value);
  return Object.entries(value).sort(([left], [right]) => left.localeCompare(right)).map(([name, item]) => `${name}=${String(item)}`).join('\n');
}

const names = new WeakMap<Listing, Map<string, Server[]>>();

/** The entries of a listing by name, computed once. */
function entriesByName(listing: Listing): Map<string, Server[]> {
  let map = names.get(listing);
  if (!map) {
    map = new Map();
    for (const server of listing.servers) {
      const same = map.get(server.name);
      if (same) same.push(server);
      else map.set(server.name, [server]);
    }
    names.set(listing, map);
  }
  return map;
}

/** All entries with this name. */
export function entriesOf(listing: Listing, name: string): Server[] {
  return entriesByName(listing).get(name) ?? [];
}

/** The chosen places (`agent:scope`), without those that cannot take such a server. */
export function possible(listing: Listing, ids: string[], transport: string): Place[] {
  return ids.map((id) => id.split(':')).map(([agent = '', scope = '']) => ({ agent, scope })).filter(({ agent, scope }) => {
    const agentEntry = listing.agents.find(({ name }) => name === agent);
    return agentEntry !== undefined && refusal(listing, agentEntry, scope, transport) === null;
  });
}

/** Why a server cannot be written there, or null if it can. */
export function refusal(listing: Listing, agent: Agent, scope: string, transport: string): string | null {
  const place = agent.scopes.find((agentEntry) => agentEntry.scope === scope);
  if (!place) return `${agent.label} has no scope ${scopeTitle(scope)}.`;
  if (fileProblem(listing, place.path)) return `${place.path} cannot be read: nothing is written to it.`;
  return agent.transports.includes(transport) || !transport ? null : `${agent.label} has no ${transport.toUpperCase()}.`;
}
