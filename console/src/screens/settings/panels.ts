// The members of a panel as text, and back.
import type { Schema } from '../../lib/api';

export type Panel = Schema['Panel'];
interface Member { model: string; role?: string; stance?: string }

/** `opus`, or `opus (for, as a lawyer)`. */
export function memberText(entry: unknown): string {
  if (typeof entry === 'string') return entry;
  if (!entry || typeof entry !== 'object' || !('model' in entry)) return JSON.stringify(entry);
  const { model, role, stance } = entry as Member;
  const about = [stance, role && `as ${role}`].filter(Boolean).join(', ');
  return about ? `${model} (${about})` : model;
}

/** Names alone, which a line of text can say; roles and stances are written by hand. */
export const isPlain = (panel: Panel): boolean => panel.models.every((entry) => typeof entry === 'string');
export const membersOf = (text: string): string[] => text.split(',').map((name) => name.trim()).filter(Boolean);
