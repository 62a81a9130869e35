// The options of a consensus: as the form has them, and as the server expects them.
import type { Schema } from '../../lib/api';

export type Refine = 'always' | 'disagreement' | 'never';
export type Stance = '' | 'for' | 'against' | 'neutral';
export interface Part {
  role: string;
  stance: Stance;
}

export interface Terms {
  refine: Refine;
  rounds: number; // at most, including the first
  order: 'parallel' | 'sequential';
  judge: string; // a model, `auto` or `none`
  choices: string; // one per line
  parts: Record<string, Part>; // by the member's label
  most: string; // US dollars, as typed
}

export const DEFAULTS: Readonly<Terms> = Object.freeze({ refine: 'always', rounds: 2, order: 'parallel', judge: 'none', choices: '', parts: {}, most: '' });
export const MOST_CHOICES = 20;

export function choicesOf(text: string): string[] {
  return text.split('\n').map((line) => line.trim()).filter(Boolean);
}

/** What is wrong with the form, or null. Checked before anything is sent. */
export function problemOf(terms: Terms): string | null {
  const choices = choicesOf(terms.choices);
  if (choices.length === 1) return 'A vote needs at least two choices, one per line.';
  if (choices.length > MOST_CHOICES) return `A vote has at most ${MOST_CHOICES} choices, not ${choices.length}.`;
  if (new Set(choices.map((choice) => choice.toLowerCase())).size < choices.length) return 'Two of the choices are the same.';
  if (terms.refine === 'disagreement' && terms.judge === 'none' && choices.length === 0) return 'A judge or a vote decides whether models disagree: choose a judge, or write choices.';
  if (terms.most.trim() !== '' && !(Number(terms.most) > 0)) return '“Spend at most” takes an amount in US dollars, such as 0.50.';
  return null;
}

/** Only what differs from the defaults. */
export function termsBody(terms: Terms): Record<string, unknown> {
  const choices = choicesOf(terms.choices);
  return {
    enable_cross_feedback: terms.refine !== 'never',
    ...(terms.refine === 'disagreement' && { refine: 'disagreement' }),
    ...(terms.refine !== 'never' && terms.rounds !== DEFAULTS.rounds && { rounds: terms.rounds }),
    ...(terms.order !== DEFAULTS.order && { order: terms.order }),
    ...(terms.judge !== DEFAULTS.judge && { judge: terms.judge }),
    ...(choices.length > 0 && { choices }),
    ...(terms.most.trim() !== '' && { max_cost_usd: Number(terms.most) }),
  };
}

/** The panel with roles and stances. */
export function membersBody(models: string[], names: string[], parts: Record<string, Part>): (string | { model: string; role?: string; stance?: string })[] {
  return models.map((model, index) => {
    const part = parts[names[index] ?? model];
    const role = part?.role.trim() ?? '';
    if (!role && !part?.stance) return model;
    return { model, ...(role && { role }), ...(part?.stance && { stance: part.stance }) };
  });
}

/** The terms of an earlier question. */
export function termsOf(question: Omit<Schema['Question'], 'members'> & { members?: unknown[] }, names: string[]): Terms {
  const parts: Record<string, Part> = {};
  (question.members ?? []).forEach((member, index) => {
    const { role = '', stance = '' } = (typeof member === 'object' ? member : {}) as { role?: string; stance?: Stance };
    if (role || stance) parts[names[index] ?? ''] = { role, stance };
  });
  return {
    refine: (question.refine as Refine | undefined) ?? (question.enable_cross_feedback ? 'always' : 'never'),
    rounds: Math.max(2, question.rounds ?? DEFAULTS.rounds),
    order: question.order === 'sequential' ? 'sequential' : 'parallel',
    judge: question.judge ?? 'none',
    choices: (question.choices ?? []).join('\n'),
    parts,
    most: '',
  };
}
