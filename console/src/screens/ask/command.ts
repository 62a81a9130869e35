// A question as a command line.
import { shell } from '../../lib/format';

export interface Asking {
  prompt: string;
  model: string;
  effort: string;
  web: boolean;
  conversation: string | null;
  files: string[];
  images: string[];
}

const LONGEST = 200; // characters of the prompt

export function command(asking: Asking): string {
  const parts = ['counsel ask'];
  if (asking.model && asking.model !== 'auto') parts.push(`-m ${shell(asking.model)}`);
  if (asking.conversation) parts.push(`-c ${shell(asking.conversation)}`);
  if (asking.effort) parts.push(`--effort ${asking.effort}`);
  if (asking.web) parts.push('--web');
  for (const file of asking.files) parts.push(`-f ${shell(file)}`);
  for (const image of asking.images) parts.push(`-i ${shell(image)}`);
  const text = asking.prompt.trim() || '…';
  const short = text.length > LONGEST ? `${text.slice(0, LONGEST)}…` : text;
  return [...parts, quoted(short)].join(' ');
}

/** Always in quotes: a question is text, even one word. */
function quoted(text: string): string {
  return /["$`\\!]/.test(text) ? `'${text.replaceAll("'", `'\\''`)}'` : `"${text}"`;
}
