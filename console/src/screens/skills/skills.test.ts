import { describe, expect, test } from 'vitest';
import { byAgent, filterSkills, groups, hasProblem, remarks, shareCommand, unshareCommand, verdicts, type Skill } from './skills';

function skill(changes: Partial<Skill>): Skill {
  const name = changes.name ?? 'release';
  return {
    agent: 'claude', scope: 'user', name, description: 'Makes a release', path: `/home/.claude/skills/${name}/SKILL.md`, command: `/${name}`, accepted: true,
    problems: [], state: 'loaded', codes: [], model: true, shared: false, plugin: null, version: null, shadowed_by: null, links_to: null, ...changes,
  };
}

const linked = skill({ agent: 'codex', path: '/home/.agents/skills/release/SKILL.md', links_to: '/home/.claude/skills/release/SKILL.md', command: '$release' });

describe('groups', () => {
  test('hold the same file under another name, and the same name elsewhere', () => {
    const renamed = skill({ agent: 'gemini', name: 'publish', path: '/x/SKILL.md', links_to: '/home/.claude/skills/release/SKILL.md' });
    const copy = skill({ agent: 'cursor', path: '/y/release/SKILL.md' });
    expect(groups([skill({}), renamed, copy, skill({ name: 'other' })]).map((group) => [group.name, group.skills.length])).toEqual([['other', 1], ['release', 3]]);
  });

  test('have drift if one entry differs', () => {
    expect(groups([skill({}), skill({ agent: 'codex', codes: ['drift'], problems: ['differs'] })])[0]?.drift).toBe(true);
  });
});

test('every agent has a verdict, also one that does not see the skill', () => {
  const refused = skill({ agent: 'gemini', state: 'refused', accepted: false, codes: ['refused'], problems: ['Gemini ignores it: no name.'] });
  const all = verdicts(groups([skill({}), linked, refused])[0] ?? { name: '', skills: [], drift: false });
  expect(all.map(({ agent, text }) => [agent, text])).toEqual([['claude', 'Loads it'], ['codex', 'Loads it'], ['gemini', 'Refuses it'], ['cursor', 'Does not see it']]);
  expect(remarks(refused)[0]).toMatchObject({ problem: 'Gemini ignores it: no name.', fix: expect.stringContaining('SKILL.md') as string });
});

test('a loaded entry counts before a shadowed one', () => {
  const shadowed = skill({ state: 'shadowed', accepted: false, codes: ['duplicate'], problems: ['duplicate'], path: '/a/SKILL.md' });
  const [first] = verdicts({ name: 'release', skills: [shadowed, skill({})], drift: false });
  expect(first?.skill?.state).toBe('loaded');
  expect(first?.others).toEqual([shadowed]);
});

test('filters take words, agents, scopes and remarks together', () => {
  const list = [skill({}), linked, skill({ name: 'sql', codes: ['no-description'], problems: ['no description'] })];
  const all = { query: '', agent: '', scope: '', problems: false };
  expect(filterSkills(list, all)).toHaveLength(3);
  expect(filterSkills(list, { ...all, query: 'makes $rel' })).toEqual([linked]);
  expect(filterSkills(list, { ...all, agent: 'claude', problems: true }).map(({ name }) => name)).toEqual(['sql']);
  expect(filterSkills(list, { ...all, scope: 'project' })).toEqual([]);
});

test('a second way to the same file is no problem', () => {
  expect(hasProblem(skill({ state: 'shadowed', codes: ['same-file'] }))).toBe(false);
  expect(hasProblem(skill({ state: 'disabled', codes: ['disabled'] }))).toBe(true);
});

test('agents without skills are left out, scopes are in order', () => {
  const list = byAgent([skill({ scope: 'plugin' }), skill({ scope: 'project', path: '/p' }), linked]);
  expect(list.map(({ agent, scopes }) => [agent, scopes.map(({ scope }) => scope)])).toEqual([['claude', ['project', 'plugin']], ['codex', ['user']]]);
});

test('commands are those of the command line', () => {
  const wish = { name: 'my skill', to: ['codex'], scope: 'project' as const, copy: true, replace: true };
  expect(shareCommand(wish)).toBe("counsel skills share 'my skill' --to codex --scope project --copy --yes");
  expect(shareCommand({ name: 'x', to: ['claude', 'codex', 'gemini', 'cursor'], scope: 'user', copy: false, replace: false })).toBe('counsel skills share x --everywhere');
  expect(unshareCommand('x')).toBe('counsel skills share x --remove');
});
