// The list of /api/skills for the screen: groups of copies, verdicts, filters, commands.
import { shell } from '../../lib/format';
import type { Schema } from '../../lib/api';

export type Skill = Schema['Skill'];
export type Scope = Skill['scope'];
export type Tone = 'good' | 'warn' | 'bad' | '';

export const SCOPES: Scope[] = ['project', 'user', 'plugin', 'admin', 'system'];
export const SCOPE_LABELS: Record<Scope, string> = {
  project: 'Project',
  user: 'User',
  plugin: 'Plugins',
  admin: 'Whole machine',
  system: 'Comes with the agent',
};
export const AGENTS = ['claude', 'codex', 'gemini', 'cursor'];

/** The file behind all links. */
export const realPath = (skill: Skill): string => skill.links_to ?? skill.path;
export const folderOf = (path: string): string => path.replace(/\/[^/]*$/, '');
export const isLink = (skill: Skill): boolean => skill.links_to !== null;
export const differs = (skill: Skill): boolean => skill.codes.includes('drift');

export interface Group {
  name: string;
  skills: Skill[];
  drift: boolean;
}

/** Groups entries of one skill, as `counsel skills matrix` does: the same file under any name, or the same name. */
export function groups(skills: Skill[]): Group[] {
  const names = new Map<string, string>();
  const byName = new Map<string, Skill[]>();
  for (const skill of skills) {
    const name = names.get(realPath(skill)) ?? skill.name;
    names.set(realPath(skill), name);
    byName.set(name, [...(byName.get(name) ?? []), skill]);
  }
  return [...byName]
    .map(([name, entries]) => ({ name, skills: entries, drift: entries.some(differs) }))
    .sort((a, b) => a.name.toLowerCase().localeCompare(b.name.toLowerCase()));
}

export function matches(skill: Skill, query: string): boolean {
  const text = [skill.name, skill.description, skill.plugin ?? '', skill.command ?? '', skill.path].join('\n').toLowerCase();
  return query.toLowerCase().split(/\s+/).every((word) => text.includes(word));
}

export interface Filter {
  query: string;
  agent: string;
  scope: string;
  problems: boolean;
}

export function filterSkills(skills: Skill[], filter: Filter): Skill[] {
  return skills.filter(
    (skill) =>
      (!filter.agent || skill.agent === filter.agent) &&
      (!filter.scope || skill.scope === filter.scope) &&
      (!filter.problems || hasProblem(skill)) &&
      matches(skill, filter.query),
  );
}

/** Whether an entry has a problem. A second path to the same file is none: the agent loads the file. */
export function hasProblem(skill: Skill): boolean {
  if (skill.codes.includes('same-file')) return false;
  return skill.state !== 'loaded' || skill.codes.length > 0;
}

export interface AgentSkills {
  agent: string;
  total: number;
  scopes: { scope: Scope; skills: Skill[] }[];
}

export function byAgent(skills: Skill[]): AgentSkills[] {
  return AGENTS.map((agent) => {
    const own = skills.filter((skill) => skill.agent === agent);
    const scopes = SCOPES.map((scope) => ({ scope, skills: own.filter((skill) => skill.scope === scope) }));
    return { agent, total: own.length, scopes: scopes.filter((entry) => entry.skills.length > 0) };
  }).filter((entry) => entry.total > 0);
}

// ── verdicts ──

const VERDICTS: Record<Skill['state'], { text: string; tone: Tone }> = {
  loaded: { text: 'Loads it', tone: 'good' },
  shadowed: { text: 'Uses another copy', tone: 'warn' },
  disabled: { text: 'Switched off', tone: 'warn' },
  untrusted: { text: 'Needs your trust', tone: 'warn' },
  refused: { text: 'Refuses it', tone: 'bad' },
};

export interface Verdict {
  agent: string;
  text: string;
  tone: Tone;
  skill: Skill | null;
  others: Skill[]; // further entries of this agent
}

const better = (a: Skill, b: Skill): number => rank(a) - rank(b);
const rank = (skill: Skill): number => ['loaded', 'disabled', 'untrusted', 'refused', 'shadowed'].indexOf(skill.state);

/** A verdict for every agent, including those that do not see the skill. */
export function verdicts(group: Group): Verdict[] {
  return AGENTS.map((agent) => {
    const [skill, ...others] = group.skills.filter((entry) => entry.agent === agent).sort(better);
    if (!skill) return { agent, text: 'Does not see it', tone: '', skill: null, others: [] };
    const { text, tone } = verdict(skill);
    return { agent, text, tone, skill, others };
  });
}

export function verdict(skill: Skill): { text: string; tone: Tone } {
  const { text, tone } = VERDICTS[skill.state];
  if (skill.codes.includes('same-file')) return { text: 'Loads it from elsewhere', tone: '' };
  if (skill.state === 'loaded' && skill.codes.some((code) => code !== 'drift')) return { text: 'Loads it, with remarks', tone: 'warn' };
  return { text, tone };
}

const FIXES: Record<string, string> = {
  'no-description': 'Add a line `description: …` to the header of SKILL.md: what it does and when to use it.',
  'not-invocable': 'Remove `user-invocable: false` from the header to call it yourself.',
  'too-large': 'Move parts of the text into other files of the skill’s folder and mention them in SKILL.md.',
  unreadable: 'Check the owner and the mode of the file.',
  'not-a-file': 'SKILL.md must be a file: replace what is there.',
  'no-name': 'Add a line `name: …` to the header of SKILL.md.',
  'same-file': 'Nothing to do: it is the same file.',
  duplicate: 'Rename or remove one of the two.',
  refused: 'Correct the header of SKILL.md; the rules are below.',
  untrusted: 'Start `gemini` in this folder once and trust it.',
};

/** An entry's problems and their fixes. Differing copies are shown once for all agents. */
export function remarks(skill: Skill): { code: string; problem: string; fix: string }[] {
  const all = skill.codes.map((code, index) => ({ code, problem: skill.problems[index] ?? code, fix: FIXES[code] ?? '' }));
  return all.filter(({ code }) => code !== 'drift');
}

// ── commands ──

export interface ShareWish {
  name: string;
  to: string[];
  scope: 'user' | 'project';
  copy: boolean;
  replace: boolean;
}

export function shareCommand({ name, to, scope, copy, replace }: ShareWish): string {
  const target = to.length === AGENTS.length ? '--everywhere' : `--to ${to.join(',') || 'AGENT'}`;
  const options = [target, scope === 'project' ? '--scope project' : '', copy ? '--copy' : '', replace ? '--yes' : ''];
  return ['counsel skills share', shell(name), ...options.filter(Boolean)].join(' ');
}

export const unshareCommand = (name: string): string => `counsel skills share ${shell(name)} --remove`;

/** The text for a planned or completed step. */
export function stepText(fate: Schema['SharingStep']['fate'], kind: 'link' | 'copy'): { text: string; tone: Tone } {
  switch (fate) {
    case 'share': return { text: kind === 'link' ? 'New link' : 'New copy', tone: 'good' };
    case 'beside': return { text: 'Another skill has this name', tone: 'warn' };
    case 'replace': return { text: 'Replaces what is there', tone: 'warn' };
    case 'already': return { text: 'Already there', tone: '' };
    case 'shared': return { text: 'Shared', tone: 'good' };
    case 'replaced': return { text: 'Replaced', tone: 'good' };
    case 'removed': return { text: 'Removed', tone: 'bad' };
    case 'kept': return { text: 'Left alone', tone: '' };
  }
}
