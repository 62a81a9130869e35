// The command for a consensus, and all answers as one text.
import { shell } from '../../lib/format';
import { choicesOf, DEFAULTS, type Terms } from './request';

export interface ConsensusOptions {
  prompt: string;
  models: string[];
  terms?: Terms;
  effort?: string | null;
  web?: boolean;
  files?: string[];
}

export function command({ prompt, models, terms = DEFAULTS, effort, web, files = [] }: ConsensusOptions): string {
  const isAuto = models.length === 1 && models[0] === 'auto'; // the command's default
  const words = ['counsel', 'consensus'];
  if (models.length > 0 && !isAuto) words.push('-m', shell(models.join(',')));
  const names = labels(models);
  for (const name of names) {
    const part = terms.parts[name];
    if (part?.role.trim()) words.push('--role', shell(`${name}=${part.role.trim()}`));
    if (part?.stance) words.push('--stance', shell(`${name}=${part.stance}`));
  }
  if (terms.judge !== DEFAULTS.judge) words.push('--judge', shell(terms.judge));
  for (const choice of choicesOf(terms.choices)) words.push('--choice', shell(choice));
  if (terms.refine === 'never') words.push('--no-feedback');
  else if (terms.refine !== DEFAULTS.refine) words.push('--refine', terms.refine);
  if (terms.refine !== 'never' && terms.rounds !== DEFAULTS.rounds) words.push('--rounds', String(terms.rounds));
  if (terms.order !== DEFAULTS.order) words.push('--order', terms.order);
  if (terms.most.trim()) words.push('--max-cost', shell(terms.most.trim()));
  if (effort) words.push('--effort', effort);
  if (web) words.push('--web');
  for (const file of files) words.push('-f', shell(file));
  words.push(shell(prompt || '…'));
  return words.join(' ');
}

/** The names that the server gives to members of a panel: `gpt-5`, `gpt-5#2`. */
export function labels(models: string[]): string[] {
  const counts = new Map<string, number>();
  return models.map((model) => {
    const number = (counts.get(model) ?? 0) + 1;
    counts.set(model, number);
    return number === 1 ? model : `${model}#${number}`;
  });
}

export interface ColumnAnswer {
  name: string;
  first: string;
  refined: string | null;
  error: { error: string; code: string } | null;
  mark: string | null;
}

/** The question and all answers as Markdown. */
export function asMarkdown(question: string, answers: ColumnAnswer[]): string {
  const sections = answers.map(({ name, first, refined, error, mark }) => {
    const lines = [`## ${name}`];
    if (error) lines.push(`> Failed: ${error.error} (${error.code})`);
    if (refined !== null) lines.push(`*Refined answer${mark ? `: ${mark}` : ''}*`, refined, '### First answer', first);
    else if (first) lines.push(first);
    return lines.join('\n\n');
  });
  return [`# ${question.trim()}`, ...sections].join('\n\n').trim() + '\n';
}
