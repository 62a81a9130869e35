// A change of files as requests that are first sent as dry runs.
import { api, type Schema } from '../../lib/api';
import * as commands from './commands';
import type { Fields } from './commands';
import type { Agent, Place, Server } from './model';

export type Change = Schema['ServerChange'];

export interface Step {
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
  return api.post<Change>(step.path, { ...step.body, dry_run: dryRun });
}

/** The name is in the body: a path cannot have `..`, which a browser resolves even when it is escaped. */
const change = (name: string, action: Schema['ChangeServer']['action'], body: Record<string, unknown>, command: string): Step => ({ path: '/api/servers:change', body: { name, action, ...body }, command });
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
      return { path: '/api/servers', body, command };
    });
}

export function update(server: Server, fields: Fields, agents: string[], project: string, literal: boolean): Make {
  return ({ without }) => {
    const where = { agents: agents.filter((agent) => !without.includes(agent)), scope: server.scope, project };
    return [change(server.name, 'update', { server: fields, literal, ...where }, commands.update(server.name, fields, where, server.command ?? '', server.args, literal))];
  };
}

export function copy(server: Server, to: Place[], project: string): Make {
  return ({ replace, without }) => {
    const from = { agent: server.agent, scope: server.scope };
    const kept = to.filter(({ agent }) => !without.includes(agent));
    return [change(server.name, 'copy', { from, to: kept, project, replace }, commands.copy(server.name, from, kept, project, replace))];
  };
}

/** To the user's scope of the same agent; the original is removed, or kept as well. */
export function promote(server: Server, project: string, removes: boolean): Make {
  return (answers) => [...copy(server, [{ agent: server.agent, scope: 'user' }], project)(answers), ...(removes ? remove(server, project)(answers) : [])];
}

export function rename(server: Server, to: string, agents: string[], project: string): Make {
  return ({ without }) => {
    const where = { agents: agents.filter((agent) => !without.includes(agent)), scope: server.scope, project };
    return [change(server.name, 'rename', { to, ...where }, commands.rename(server.name, to, where))];
  };
}

export function toggle(server: Server, enabled: boolean, project: string): Make {
  const where = place(server, project);
  return () => [change(server.name, enabled ? 'enable' : 'disable', where, commands.toggle(server.name, enabled, where))];
}

export function remove(server: { name: string; agent: string; scope: string }, project: string): Make {
  const where = { agents: [server.agent], scope: server.scope, project };
  return () => [change(server.name, 'remove', where, commands.remove(server.name, where))];
}

export function undo(id: string): Make {
  return () => [{ path: '/api/servers:undo', body: { id }, command: commands.undo(id) }];
}
