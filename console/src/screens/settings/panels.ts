// Converts the members of a panel to text, and back.
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

/** Whether a panel has only names, which can be edited as a line of text. Roles and stances are edited by hand. */
export const isPlain = (panel: Panel): boolean => panel.models.every((entry) => typeof entry === 'string');
export const membersOf = (text: string): string[] => text.split(',').map((name) => name.trim()).filter(Boolean);
