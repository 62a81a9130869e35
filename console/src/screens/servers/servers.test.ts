import { describe, expect, it } from 'vitest';
import * as commands from './commands';
import { argsOf, argsText, complaints, emptyForm, fieldsOf, formOf, pair, patchOf, words } from './form';
import { differing, grouped, matrix, possible, refusal, stateOf, whyWaiting, type Agent, type Listing, type Problem, type Server } from './model';
import * as steps from './steps';

const NONE = { replace: false, without: [] };

function server(name: string, agent: string, more: Partial<Server> = {}): Server {
  return {
    name, agent, scope: 'user', path: `/home/${agent}`, transport: 'stdio', enabled: true, waits_for: null, command: 'npx', args: ['-y', name], env: {}, cwd: null, url: null, headers: {},
    token_env: null, timeout: null, include_tools: null, exclude_tools: null, extras: {}, shadowed_by: null, drift: [], writable: true, ...more,
  };
}

function agent(name: string, more: Partial<Agent> = {}): Agent {
  return { name, label: name.toUpperCase(), scopes: [{ scope: 'user', path: `/home/${name}`, present: true }, { scope: 'project', path: `/project/${name}`, present: true }], transports: ['stdio', 'http', 'sse'], lacks: {}, no_switch: null, names: 'any', ...more };
}

const problem = (name: string, more: Partial<Problem> = {}): Problem => ({ error: 'Expecting a comma (line 4, column 5).', code: 'CONFIG_INVALID', agent: name, scope: 'user', path: `/home/${name}`, line: 4, column: 5, ...more });
const listing = (servers: Server[], more: Partial<Listing> = {}): Listing => ({ servers, problems: [], agents: [agent('claude'), agent('codex', { transports: ['stdio', 'http'] })], ...more });
const ALL = { words: [], agent: '' };

describe('the state of a server', () => {
  it('is on only where the agent would load it now', () => {
    const states = [{}, { enabled: false }, { waits_for: 'trust' as const }, { waits_for: 'approval' as const }].map((more) => server('a', 'codex', more));
    expect(states.map(stateOf)).toEqual(['on', 'off', 'untrusted', 'pending']);
    expect(states.map((row) => whyWaiting(row, 'Codex')?.split(',')[0])).toEqual([undefined, undefined, 'Codex does not trust this folder', "Codex asks before it uses a project's server"]);
    expect(matrix(listing(states.slice(2, 3)), ALL)[0]?.cells[1]?.state).toBe('untrusted');
  });
});

describe('the cards', () => {
  it('shows a server that is not loaded once, with the reason as a notice', () => {
    const ignored = problem('claude', { name: 'workspace', editable: true });
    const [claude] = grouped(listing([server('workspace', 'claude', { enabled: false })], { problems: [ignored] }), ALL);
    const [user] = claude?.scopes ?? [];
    expect([user?.servers.length, user?.entries, user?.notices]).toEqual([1, [], [ignored]]);
  });

  it('groups servers by agent and scope, and keeps empty scopes', () => {
    const [claude, codex] = grouped(listing([server('a', 'claude'), server('b', 'claude', { scope: 'project' }), server('a', 'codex')]), ALL);
    expect(claude?.scopes.map(({ scope, servers }) => [scope, servers.map(({ name }) => name)])).toEqual([['user', ['a']], ['project', ['b']]]);
    expect(codex?.scopes.map(({ servers }) => servers.length)).toEqual([1, 0]);
  });

  it('leaves out agents that are not here and have nothing', () => {
    const absent = agent('cursor', { scopes: [{ scope: 'user', path: '/x', present: false }] });
    expect(grouped(listing([], { agents: [absent, agent('codex')] }), ALL).map(({ agent: { name } }) => name)).toEqual(['codex']);
    expect(grouped(listing([server('a', 'cursor')], { agents: [absent] }), ALL)).toHaveLength(1);
  });

  it('finds servers by all words, in names, commands and variables', () => {
    const all = listing([server('docs', 'claude', { env: { TOKEN: 'x' } }), server('files', 'claude')]);
    expect(grouped(all, { words: ['npx', 'token'], agent: '' })[0]?.count).toBe(1);
    expect(grouped(all, { words: ['nothing'], agent: '' })).toEqual([]);
  });

  it('shows an unreadable file as such and the other agents as ever', () => {
    const groups = grouped(listing([server('a', 'codex')], { problems: [problem('claude')] }), ALL);
    expect(groups.map(({ scopes }) => scopes[0]?.problem?.line)).toEqual([4, undefined]);
    expect(groups[1]?.count).toBe(1);
  });
});

describe('the matrix', () => {
  it('says on, off, missing, malformed, and unknown where the file cannot be read', () => {
    const all = listing([server('a', 'claude', { enabled: false }), server('b', 'codex')], { problems: [problem('claude', { name: 'c' })] });
    expect(matrix(all, ALL).map(({ name, cells }) => [name, ...cells.map(({ state }) => state)])).toEqual([['a', 'off', 'missing'], ['b', 'missing', 'on'], ['c', 'malformed', 'missing']]);
    expect(matrix(listing([server('b', 'codex')], { problems: [problem('claude')] }), ALL)[0]?.cells[0]?.state).toBe('unknown');
  });

  it('marks those that are unlike the others', () => {
    const same = [server('a', 'claude', { drift: ['args'] }), server('a', 'cursor', { drift: ['args'] })];
    const odd = server('a', 'codex', { drift: ['args'], args: ['other'] });
    expect([...differing([...same, odd])]).toEqual([odd]);
    expect(differing(same).size).toBe(2); // only masked secrets differ: none of them is the usual one
    expect(differing([server('a', 'claude')]).size).toBe(0);
  });
});

describe('targets', () => {
  it('are not offered where the file cannot be read or the transport is unknown', () => {
    const all = listing([], { problems: [problem('claude')] });
    expect(possible(all, ['claude:user', 'claude:project', 'codex:user'], 'sse')).toEqual([{ agent: 'claude', scope: 'project' }]);
    expect(refusal(all, agent('claude'), 'local', 'stdio')).toContain('no scope Local');
  });

  it('makes one request and one command for each scope', () => {
    const places = [{ agent: 'claude', scope: 'user' }, { agent: 'codex', scope: 'user' }, { agent: 'codex', scope: 'project' }];
    const made = steps.add({ name: 'a', fields: { command: 'npx', args: ['-y', 'a b'] } }, places, listing([]).agents, '/my project')(NONE);
    expect(made.map(({ command }) => command)).toEqual(["counsel servers add a --everywhere -- npx -y 'a b'", "counsel servers add a --agent codex --scope project --project '/my project' -- npx -y 'a b'"]);
    expect(made.map(({ body }) => [body.agents, body.scope])).toEqual([[['claude', 'codex'], 'user'], [['codex'], 'project']]);
    expect(steps.add({ name: 'a', fields: {} }, places, [], '/p')({ replace: true, without: ['codex'] })).toHaveLength(1);
  });

  it('promotes by a copy to User and a removal', () => {
    const made = steps.promote(server('a', 'claude', { scope: 'local' }), '/p', true)(NONE);
    expect(made.map(({ command }) => command)).toEqual(['counsel servers copy a --from claude:local --to claude:user --project /p', 'counsel servers remove a --agent claude --scope local --project /p']);
  });
});

describe('commands', () => {
  const place = { agents: ['codex'], scope: 'user', project: '/p' };

  it('quotes names and keeps a name with a dash from being an option', () => {
    expect(commands.remove("it's / ünï", place)).toBe("counsel servers remove 'it'\\''s / ünï' --agent codex --scope user");
    expect(commands.rename('-x', 'y', place)).toBe('counsel servers rename --agent codex --scope user -- -x y');
    expect(commands.add({ name: '-x', fields: { command: 'c', args: ['-a'] }, where: place })).toBe('counsel servers add --agent codex -- -x c -a');
  });

  it('writes a change as options, with what is removed', () => {
    const fields = { timeout: null, env: { A: '1', B: null }, include_tools: ['t'], exclude_tools: null, cwd: '/w' };
    expect(commands.update('x', fields, place, 'c', [])).toBe('counsel servers update x --agent codex --scope user --cwd /w --unset timeout --env A=1 --remove-env B --include-tool t --unset exclude-tool');
    expect(commands.update('x', { args: ['-v'] }, place, 'c', ['old'])).toBe('counsel servers update x --agent codex --scope user -- c -v');
    expect(commands.update('x', { command: 'd' }, place, 'c', ['old'])).toBe('counsel servers update x --agent codex --scope user -- d old');
  });

  it('writes a remote server and a pasted one', () => {
    expect(commands.add({ name: 'd', fields: { url: 'https://h/mcp', transport: 'sse', headers: { 'X-A': 'b c' } }, where: place, replace: true })).toBe("counsel servers add d --agent codex --transport sse --url https://h/mcp --header 'X-A: b c' --replace");
    expect(commands.add({ name: '', fields: {}, where: { ...place, everywhere: true }, pasted: true })).toBe('counsel servers add --everywhere --from -');
  });
});

describe('the form', () => {
  it('sends only what is filled in', () => {
    expect(fieldsOf({ ...emptyForm(), name: 'a', command: ' npx ', args: '-y\n\npkg', env: [pair('A', '1'), pair()], timeout: '5' })).toEqual({ command: 'npx', args: ['-y', 'pkg'], env: { A: '1' }, timeout: 5 });
    expect(fieldsOf({ ...emptyForm(), transport: 'sse', url: 'https://h', include: 'a, b' })).toEqual({ url: 'https://h', transport: 'sse', include_tools: ['a', 'b'] });
  });

  it('keeps arguments that lines cannot say', () => {
    for (const args of [['a b', '-c'], ['one\ntwo'], [''], ['["x"]'], ['[not json'], []]) expect(argsOf(argsText(args))).toEqual(args);
  });

  it('splits a typed command line', () => {
    expect(words(`npx -y "a b" 'c d' --x="1 2"`)).toEqual(['npx', '-y', 'a b', 'c d', '--x=1 2']);
  });

  it('changes only what was changed, and removes by null', () => {
    const old = server('a', 'claude', { env: { KEY: 'sk…34', A: '1' }, timeout: 5 });
    const form = formOf(old);
    expect(patchOf(old, form)).toEqual({});
    expect(patchOf(old, { ...form, timeout: '', args: '-y', env: form.env.filter(({ name }) => name !== 'A') })).toEqual({ timeout: null, args: ['-y'], env: { A: null } });
    expect(patchOf(old, { ...form, args: '' })).toEqual({ args: null });
  });

  it('turns a started server into a remote one', () => {
    const old = server('a', 'claude', { env: { A: '1' } });
    expect(patchOf(old, { ...formOf(old), transport: 'http', url: 'https://h' })).toEqual({ transport: 'http', url: 'https://h' });
    const remote = server('a', 'claude', { transport: 'http', command: null, args: [], url: 'https://h' });
    expect(patchOf(remote, { ...formOf(remote), transport: 'sse' })).toEqual({ transport: 'sse' });
  });

  it('never writes a mask as a value', () => {
    const old = server('a', 'claude', { env: { KEY: 'sk…34' } });
    const form = formOf(old);
    expect(complaints(form, old)).toEqual([]);
    expect(complaints({ ...form, env: form.env.map((row) => ({ ...row, name: 'OTHER' })) }, old)[0]).toContain('Reveal or retype');
    expect(complaints({ ...emptyForm(), transport: 'http', headers: [pair('', 'x')], timeout: 'soon' })).toHaveLength(4);
  });
});
