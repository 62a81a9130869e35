// The command for a question.
import { shell } from '../../lib/format';

export interface QuestionOptions {
  prompt: string;
  model: string;
  effort: string;
  web: boolean;
  conversation: string | null;
  files: string[];
  images: string[];
}

const LONGEST = 200; // characters of the prompt

export function command(question: QuestionOptions): string {
  const parts = ['counsel ask'];
  if (question.model && question.model !== 'auto') parts.push(`-m ${shell(question.model)}`);
  if (question.conversation) parts.push(`-c ${shell(question.conversation)}`);
  if (question.effort) parts.push(`--effort ${question.effort}`);
  if (question.web) parts.push('--web');
  for (const file of question.files) parts.push(`-f ${shell(file)}`);
  for (const image of question.images) parts.push(`-i ${shell(image)}`);
  const text = question.prompt.trim() || '…';
  const short = text.length > LONGEST ? `${text.slice(0, LONGEST)}…` : text;
  return [...parts, quote(short)].join(' ');
}

/** Always in quotes: a question is text, even one word. */
function quote(text: string): string {
  return /["$`\\!]/.test(text) ? `'${text.replaceAll("'", `'\\''`)}'` : `"${text}"`;
}
