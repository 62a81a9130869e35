import { expect, test } from 'vitest';
import { byArea, byUse, MARKS, state, summary, type Agent, type Finding } from './agents';

function agent(changes: Partial<Agent>): Agent {
  return {
    agent: 'codex', label: 'Codex', installed: true, path: '/bin/codex', version: '1', logged_in: true, usable: true, reason: null,
    install: 'npm install -g @openai/codex', login: 'codex login', config_files: [], servers: 0, skills: 0, ...changes,
  };
}

test('what to do depends on what is missing', () => {
  expect(state(agent({}))).toMatchObject({ text: 'Ready', command: null });
  expect(state(agent({ installed: false, usable: false, logged_in: false }))).toMatchObject({ text: 'Not installed', command: 'npm install -g @openai/codex' });
  expect(state(agent({ usable: false, logged_in: false }))).toMatchObject({ text: 'Not logged in', command: 'codex login' });
  expect(state(agent({ logged_in: null }))).toMatchObject({ text: 'Login unknown', tone: 'warn' });
});

test('agents that can be asked come first', () => {
  const list = [agent({ agent: 'a', installed: false, usable: false }), agent({ agent: 'b', usable: false }), agent({ agent: 'c' })];
  expect(byUse(list).map((entry) => entry.agent)).toEqual(['c', 'b', 'a']);
});

test('areas with problems come first, the others stay in order', () => {
  const finding = (area: string, level: Finding['level']): Finding => ({ area, level, what: '' });
  const list = [finding('versions', 'ok'), finding('home', 'off'), finding('providers', 'warn'), finding('database', 'problem'), finding('versions', 'info')];
  expect(byArea(list).map(({ area, findings }) => [area, findings.length])).toEqual([['database', 1], ['providers', 1], ['versions', 2], ['home', 1]]);
});

test('only what works has a tick', () => {
  expect(Object.entries(MARKS).filter(([, { sign }]) => sign === '✓').map(([level]) => level)).toEqual(['ok']);
});

test('the summary counts', () => {
  expect(summary({ level: 'ok', counts: {}, findings: [] })).toBe('Nothing is wrong.');
  expect(summary({ level: 'problem', counts: { problem: 1, warn: 2 }, findings: [] })).toBe('1 problem, 2 warnings.');
});
