// How the agents screen presents agents and findings.
import type { Schema } from '../../lib/api';
import { plural } from '../../lib/format';

export type Agent = Schema['Agent'];
export type Finding = Schema['Finding'];

/** Agents that can be asked come first, then installed ones, then the rest. */
export function byUse(agents: Agent[]): Agent[] {
  const rank = (agent: Agent): number => (agent.usable ? 0 : agent.installed ? 1 : 2);
  return [...agents].sort((a, b) => rank(a) - rank(b));
}

export function state(agent: Agent): { text: string; tone: 'good' | 'warn' | ''; todo: string; command: string | null } {
  if (!agent.installed) return { text: 'Not installed', tone: '', todo: 'Install it:', command: agent.install };
  if (agent.usable && agent.logged_in) return { text: 'Ready', tone: 'good', todo: '', command: null };
  if (agent.logged_in === false) return { text: 'Not logged in', tone: 'warn', todo: 'Log in:', command: agent.login };
  if (agent.usable) return { text: 'Login unknown', tone: 'warn', todo: 'Only the agent itself can see its login. If a question fails, log in:', command: agent.login };
  return { text: 'Not usable', tone: 'warn', todo: agent.reason ?? '', command: null };
}

/** A tick means tested and working; a dash means not set up. */
export const MARKS: Record<Finding['level'], { sign: string; word: string; tone: string }> = {
  ok: { sign: '✓', word: 'works', tone: 'good' },
  info: { sign: '·', word: 'not tested', tone: 'muted' },
  off: { sign: '–', word: 'not set up', tone: 'muted' },
  warn: { sign: '!', word: 'warning', tone: 'warn' },
  problem: { sign: '✗', word: 'problem', tone: 'bad' },
};

const AREAS: Record<string, string> = {
  versions: 'Versions',
  settings: 'Settings',
  budgets: 'Budgets',
  home: 'Folder',
  database: 'Database',
  daemon: 'Daemon',
  models: 'Models',
  providers: 'Providers',
  agents: 'Agents',
  setup: 'counsel in the agents',
  online: 'Online',
};

export interface Area {
  area: string;
  title: string;
  findings: Finding[];
}

/** Findings by area, in doctor's order, with the areas that have problems first. */
export function byArea(findings: Finding[]): Area[] {
  const areas = new Map<string, Finding[]>();
  for (const finding of findings) areas.set(finding.area, [...(areas.get(finding.area) ?? []), finding]);
  const worst = (entries: Finding[]): number => (entries.some(({ level }) => level === 'problem') ? 0 : entries.some(({ level }) => level === 'warn') ? 1 : 2);
  return [...areas]
    .map(([area, entries]) => ({ area, title: AREAS[area] ?? area, findings: entries }))
    .sort((a, b) => worst(a.findings) - worst(b.findings));
}

export function summary(doctor: Schema['Doctor']): string {
  const problems = doctor.counts.problem ?? 0;
  const warnings = doctor.counts.warn ?? 0;
  if (problems === 0 && warnings === 0) return 'Nothing is wrong.';
  return `${[problems && plural(problems, 'problem'), warnings && plural(warnings, 'warning')].filter(Boolean).join(', ')}.`;
}
