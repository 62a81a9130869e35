// The form of a server, and the fields that the API takes.
import type { Fields } from './commands';
import { isMasked, type Server } from './model';

export interface Pair {
  id: number;
  name: string;
  value: string;
}

export interface Form {
  name: string;
  transport: string;
  command: string;
  args: string;
  env: Pair[];
  cwd: string;
  url: string;
  headers: Pair[];
  token_env: string;
  timeout: string;
  include: string;
  exclude: string;
  literal: boolean;
}

let last = 0;

export function pair(name = '', value = ''): Pair {
  last += 1;
  return { id: last, name, value };
}

export function emptyForm(): Form {
  return { name: '', transport: 'stdio', command: '', args: '', env: [], cwd: '', url: '', headers: [], token_env: '', timeout: '', include: '', exclude: '', literal: false };
}

export function formOf(server: Server): Form {
  return {
    ...emptyForm(),
    name: server.name,
    transport: server.transport,
    command: server.command ?? '',
    args: argsText(server.args),
    env: pairsOf(server.env),
    cwd: server.cwd ?? '',
    url: server.url ?? '',
    headers: pairsOf(server.headers),
    token_env: server.token_env ?? '',
    timeout: server.timeout === null ? '' : String(server.timeout),
    include: (server.include_tools ?? []).join('\n'),
    exclude: (server.exclude_tools ?? []).join('\n'),
  };
}

const pairsOf = (map: Record<string, unknown>): Pair[] => Object.entries(map).map(([name, value]) => pair(name, String(value)));

/** One argument per line, or a JSON list if lines cannot express them. */
export function argsText(args: string[]): string {
  const plain = args.join('\n');
  const same = argsOf(plain);
  return same.length === args.length && same.every((arg, index) => arg === args[index]) ? plain : JSON.stringify(args, null, 1);
}

export function argsOf(text: string): string[] {
  if (text.trim().startsWith('[')) {
    try {
      const list: unknown = JSON.parse(text);
      if (Array.isArray(list) && list.every((item) => typeof item === 'string')) return list;
    } catch {
      // not JSON: an argument that begins with a bracket
    }
  }
  return text.split('\n').filter((line) => line.trim() !== '');
}

const linesOf = (text: string): string[] => text.split(/[\n,]/).map((line) => line.trim()).filter(Boolean);

/** Splits a command line: `npx -y "a b"` has three words. */
export function words(text: string): string[] {
  const parts = text.match(/(?:[^\s"']|"(?:[^"\\]|\\.)*"|'[^']*')+/g) ?? [];
  return parts.map((part) => part.replace(/"((?:[^"\\]|\\.)*)"|'([^']*)'/g, (_, double?: string, single?: string) => double?.replace(/\\(.)/g, '$1') ?? single ?? ''));
}

const mapOf = (pairs: Pair[]): Record<string, string> => Object.fromEntries(pairs.filter(({ name }) => name.trim()).map(({ name, value }) => [name.trim(), value]));

/** The fields of a new server. */
export function fieldsOf(form: Form): Fields {
  const fields: Fields = form.transport === 'stdio' ? { command: form.command.trim(), args: argsOf(form.args), env: mapOf(form.env), cwd: form.cwd.trim() } : { url: form.url.trim(), headers: mapOf(form.headers), token_env: form.token_env.trim() };
  const all: Fields = { ...fields, timeout: form.timeout.trim() === '' ? null : Number(form.timeout), include_tools: linesOf(form.include), exclude_tools: linesOf(form.exclude) };
  if (form.transport === 'sse') all.transport = 'sse';
  return Object.fromEntries(Object.entries(all).filter(([, value]) => !isEmpty(value)));
}

function isEmpty(value: unknown): boolean {
  if (value === null || value === '') return true;
  return typeof value === 'object' && Object.keys(value).length === 0;
}

/** The fields that differ from the current server; the rest stays as it is in the file. Null removes a field. */
export function patchOf(server: Server, form: Form): Fields {
  const old = fieldsOf({ ...formOf(server) });
  const next = fieldsOf(form);
  const hasNewTransport = form.transport !== server.transport;
  const patch: Fields = hasNewTransport ? { transport: form.transport } : {};
  const both = (server.transport === 'stdio') === (form.transport === 'stdio') ? [...Object.keys(old), ...Object.keys(next)] : [...Object.keys(next), 'timeout', 'include_tools', 'exclude_tools'];
  for (const field of new Set(both)) {
    if (field === 'transport' || JSON.stringify(old[field]) === JSON.stringify(next[field])) continue;
    if (field === 'env' || field === 'headers') patch[field] = pairChanges((old[field] ?? {}) as Record<string, string>, (next[field] ?? {}) as Record<string, string>);
    else patch[field] = next[field] ?? null;
  }
  return patch;
}

function pairChanges(old: Record<string, string>, next: Record<string, string>): Record<string, string | null> {
  const removed = Object.keys(old).filter((name) => !(name in next)).map((name): [string, null] => [name, null]);
  return Object.fromEntries([...removed, ...Object.entries(next).filter(([name, value]) => old[name] !== value)]);
}

/** What is wrong with the form, as sentences. The server checks the rest. */
export function complaints(form: Form, server?: Server): string[] {
  const list: string[] = [];
  if (!server && !form.name.trim()) list.push('The server needs a name.');
  if (form.transport === 'stdio' && !form.command.trim()) list.push('A server that is started needs a command.');
  if (form.transport !== 'stdio' && !form.url.trim()) list.push('A remote server needs an address.');
  if (form.timeout.trim() !== '' && !(Number(form.timeout) > 0)) list.push('The time limit is a number of seconds.');
  const pairs = form.transport === 'stdio' ? form.env : form.headers;
  const old: Record<string, unknown> = (form.transport === 'stdio' ? server?.env : server?.headers) ?? {};
  for (const { name, value } of pairs) {
    if (value && !name.trim()) list.push('A value has no name.');
    if (isMasked(value) && old[name.trim()] !== value) list.push(`Reveal or retype the value of ${name.trim()}: the mask is not the value.`);
  }
  const duplicate = pairs.map(({ name }) => name.trim()).find((name, index, all) => name && all.indexOf(name) !== index);
  if (duplicate) list.push(`${duplicate} appears twice.`);
  return list;
}
