// Changes of files as requests. Each is first sent as a dry run.
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

/** A person's answers to a change that was refused at first. */
export interface Answers {
  replace: boolean;
  without: string[]; // agents
}

export type Make = (answers: Answers) => Step[];

export function send(step: Step, dryRun: boolean): Promise<Change> {
  return api.post<Change>(step.path, { ...step.body, dry_run: dryRun });
}

/** A change of one server. Its name is in the body, because browsers resolve `..` in a path, even escaped. */
const change = (name: string, action: Schema['ChangeServer']['action'], body: Record<string, unknown>, command: string): Step => ({ path: '/api/servers:change', body: { name, action, ...body }, command });
const place = (server: Server, project: string) => ({ agents: [server.agent], scope: server.scope, project });

/** Places by scope: one request and one command each. */
export function byScope(places: Place[]): [string, string[]][] {
  const scopes = new Map<string, string[]>();
  for (const { agent, scope } of places) scopes.set(scope, [...(scopes.get(scope) ?? []), agent]);
  return [...scopes];
}

export interface NewServer {
  name: string;
  fields: Fields;
  paste?: string;
  literal?: boolean;
}

export function add(server: NewServer, places: Place[], agents: Agent[], project: string): Make {
  return ({ replace, without }) =>
    byScope(places.filter(({ agent }) => !without.includes(agent))).map(([scope, names]) => {
      const present = agents.filter((agent) => agent.scopes.some((entry) => entry.scope === scope && entry.present)).map(({ name }) => name);
      const everywhere = present.length > 1 && present.length === names.length && present.every((name) => names.includes(name));
      const body = { ...(server.name && { name: server.name }), ...(server.paste !== undefined ? { paste: server.paste } : { server: server.fields }), agents: names, scope, project, replace, literal: server.literal ?? false };
      const command = commands.add({ name: server.name, fields: server.fields, where: { agents: names, scope, project, everywhere }, pasted: server.paste !== undefined, replace, literal: server.literal ?? false });
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
    const targets = to.filter(({ agent }) => !without.includes(agent));
    return [change(server.name, 'copy', { from, to: targets, project, replace }, commands.copy(server.name, from, targets, project, replace))];
  };
}

/** Copies a server to the User scope of its agent, and perhaps removes the original. */
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
