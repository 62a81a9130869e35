// The equivalent command of every action on the screen.
import { shell } from '../../lib/format';
import type { Place } from './model';

export type Fields = Record<string, unknown>;

export interface Where {
  agents: string[];
  scope: string;
  project: string;
  everywhere?: boolean;
}

/** A command line. A name that begins with a dash goes after `--`, so that it is no option. */
function line(verb: string, names: string[], options: string[], rest: string[] = []): string {
  const words = ['counsel', 'servers', verb];
  if (names.some((name) => name.startsWith('-'))) return [...words, ...options, '--', ...names, ...rest].map(quote).join(' ');
  return [...words, ...names, ...options, ...(rest.length ? ['--', ...rest] : [])].map(quote).join(' ');
}

const quote = (word: string): string => (word === '' ? "''" : shell(word));

/** Options for a place. The project matters in every scope but the user's. */
function where({ agents, scope, project, everywhere }: Where, always: boolean): string[] {
  return [
    ...(everywhere ? ['--everywhere'] : ['--agent', agents.join(',')]),
    ...(always || scope !== 'user' ? ['--scope', scope] : []),
    ...(scope === 'user' ? [] : ['--project', project]),
  ];
}

const FLAGS: [string, string][] = [['transport', '--transport'], ['url', '--url'], ['cwd', '--cwd'], ['token_env', '--token-env'], ['timeout', '--timeout']];
const LISTS: [string, string][] = [['include_tools', '--include-tool'], ['exclude_tools', '--exclude-tool']];

function pairs(value: unknown, flag: string, separator: string, remove: string): string[] {
  return Object.entries((value ?? {}) as Record<string, string | null>).flatMap(([name, item]) => (item === null ? [remove, name] : [flag, `${name}${separator}${item}`]));
}

function flags(fields: Fields): string[] {
  const words: string[] = [];
  const unset = (flag: string): string[] => ['--unset', flag.slice(2)];
  for (const [field, flag] of FLAGS) if (field in fields) words.push(...(fields[field] === null ? unset(flag) : [flag, String(fields[field])]));
  words.push(...pairs(fields.env, '--env', '=', '--remove-env'), ...pairs(fields.headers, '--header', ': ', '--remove-header'));
  for (const [field, flag] of LISTS) {
    if (!(field in fields)) continue;
    const items = fields[field] as string[] | null;
    words.push(...(items === null ? unset(flag) : items.flatMap((item) => [flag, item])));
  }
  return words;
}

export interface AddOptions {
  name: string;
  fields: Fields;
  where: Where;
  pasted?: boolean;
  replace?: boolean;
  literal?: boolean;
}

export function add({ name, fields, where: place, pasted, replace, literal }: AddOptions): string {
  const options = [...where(place, false), ...flags(fields), ...(pasted ? ['--from', '-'] : []), ...(literal ? ['--literal'] : []), ...(replace ? ['--replace'] : [])];
  const command = fields.command ? [String(fields.command), ...((fields.args ?? []) as string[])] : [];
  return line('add', name ? [name] : [], options, command);
}

/** `command` is the current one: on the command line, arguments need their command. */
export function update(name: string, fields: Fields, place: Where, command: string, args: string[], literal = false): string {
  const options = [...where(place, true), ...flags(fields), ...(literal ? ['--literal'] : [])];
  if (fields.args === null) options.push('--unset', 'args');
  if (!('command' in fields) && !Array.isArray(fields.args)) return line('update', [name], options);
  const words = Array.isArray(fields.args) ? (fields.args as string[]) : fields.args === null ? [] : args;
  return line('update', [name], options, [String(fields.command ?? command), ...words]);
}

export function copy(name: string, from: Place, to: Place[], project: string, replace = false): string {
  const away = [from, ...to].some(({ scope }) => scope !== 'user');
  const options = ['--from', `${from.agent}:${from.scope}`, '--to', to.map(({ agent, scope }) => `${agent}:${scope}`).join(','), ...(away ? ['--project', project] : []), ...(replace ? ['--replace'] : [])];
  return line('copy', [name], options);
}

export const rename = (name: string, to: string, place: Where): string => line('rename', [name, to], where(place, true));
export const remove = (name: string, place: Where): string => line('remove', [name], where(place, true));
export const show = (name: string, place: Where): string => line('show', [name], where(place, true));

export function toggle(name: string, enabled: boolean, place: Where): string {
  const options = where(place, true);
  return line(enabled ? 'enable' : 'disable', [name], place.scope === 'user' ? [...options, '--project', place.project] : options);
}

export function check(name: string, place: Where, trust = false): string {
  return line('check', [name], [...where(place, true), ...(trust ? ['--trust-folder'] : [])]);
}

export const undo = (id: string): string => line('undo', [id], []);
