// A change of files as requests that are first sent as dry runs.
import { part, request, type Schema } from '../../lib/api';
import * as commands from './commands';
import type { Fields } from './commands';
import type { Agent, Place, Server } from './model';

export type Change = Schema['ServerChange'];

export interface Step {
  method: 'POST' | 'PATCH' | 'DELETE';
  path: string;
  body: Record<string, unknown>;
  command: string;
}

/** What a person adds to a change that was refused at first. */
export interface Answers {
  replace: boolean;
  without: string[]; // agents
}

export type Make = (answers: Answers) => Step[];

export function send(step: Step, dryRun: boolean): Promise<Change> {
  if (step.method === 'DELETE') return request<Change>('DELETE', step.path, { query: { ...(step.body as Record<string, string | string[]>), dry_run: dryRun } });
  return request<Change>(step.method, step.path, { body: { ...step.body, dry_run: dryRun } });
}

const at = (name: string, verb = ''): string => `/api/servers/${part(name)}${verb ? `/${verb}` : ''}`;
const place = (server: Server, project: string) => ({ agents: [server.agent], scope: server.scope, project });

/** Places by scope: one request and one command each. */
export function byScope(places: Place[]): [string, string[]][] {
  const scopes = new Map<string, string[]>();
  for (const { agent, scope } of places) scopes.set(scope, [...(scopes.get(scope) ?? []), agent]);
  return [...scopes];
}

export interface Added {
  name: string;
  fields: Fields;
  paste?: string;
  literal?: boolean;
}

export function add(added: Added, places: Place[], agents: Agent[], project: string): Make {
  return ({ replace, without }) =>
    byScope(places.filter(({ agent }) => !without.includes(agent))).map(([scope, names]) => {
      const present = agents.filter((agent) => agent.scopes.some((known) => known.scope === scope && known.present)).map(({ name }) => name);
      const everywhere = present.length > 1 && present.length === names.length && present.every((name) => names.includes(name));
      const body = { ...(added.name && { name: added.name }), ...(added.paste !== undefined ? { paste: added.paste } : { server: added.fields }), agents: names, scope, project, replace, literal: added.literal ?? false };
      const command = commands.add({ name: added.name, fields: added.fields, where: { agents: names, scope, project, everywhere }, pasted: added.paste !== undefined, replace, literal: added.literal ?? false });
      return { method: 'POST', path: '/api/servers', body, command };
    });
}

export function update(server: Server, fields: Fields, agents: string[], project: string, literal: boolean): Make {
  return ({ without }) => {
    const where = { agents: agents.filter((agent) => !without.includes(agent)), scope: server.scope, project };
    return [{ method: 'PATCH', path: at(server.name), body: { server: fields, literal, ...where }, command: commands.update(server.name, fields, where, server.command ?? '', server.args, literal) }];
  };
}

export function copy(server: Server, to: Place[], project: string): Make {
  return ({ replace, without }) => {
    const from = { agent: server.agent, scope: server.scope };
    const kept = to.filter(({ agent }) => !without.includes(agent));
    return [{ method: 'POST', path: at(server.name, 'copy'), body: { from, to: kept, project, replace }, command: commands.copy(server.name, from, kept, project, replace) }];
  };
}

/** To the user's scope of the same agent; the original is removed, or kept as well. */
export function promote(server: Server, project: string, removes: boolean): Make {
  return (answers) => [...copy(server, [{ agent: server.agent, scope: 'user' }], project)(answers), ...(removes ? remove(server, project)(answers) : [])];
}

export function rename(server: Server, to: string, agents: string[], project: string): Make {
  return ({ without }) => {
    const where = { agents: agents.filter((agent) => !without.includes(agent)), scope: server.scope, project };
    return [{ method: 'POST', path: at(server.name, 'rename'), body: { to, ...where }, command: commands.rename(server.name, to, where) }];
  };
}

export function toggle(server: Server, enabled: boolean, project: string): Make {
  const where = place(server, project);
  return () => [{ method: 'POST', path: at(server.name, enabled ? 'enable' : 'disable'), body: where, command: commands.toggle(server.name, enabled, where) }];
}

export function remove(server: { name: string; agent: string; scope: string }, project: string): Make {
  const where = { agents: [server.agent], scope: server.scope, project };
  return () => [{ method: 'DELETE', path: at(server.name), body: where, command: commands.remove(server.name, where) }];
}

export function undo(id: string): Make {
  return () => [{ method: 'POST', path: '/api/servers:undo', body: { id }, command: commands.undo(id) }];
}
