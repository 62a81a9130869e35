// The options that the composer sends with a question. This browser remembers the last choice.
export const EFFORTS = ['minimal', 'low', 'medium', 'high', 'max'] as const;

interface Choice {
  model: string;
  effort: string; // empty: the model's own
  web: boolean;
}

const NAME = 'counsel.ask';

export function parseChoice(text: string | null): Choice {
  const choice: Choice = { model: 'auto', effort: '', web: false };
  try {
    const value = JSON.parse(text ?? '{}') as Partial<Record<keyof Choice, unknown>>;
    if (typeof value.model === 'string' && value.model) choice.model = value.model;
    if (EFFORTS.some((effort) => effort === value.effort)) choice.effort = String(value.effort);
    choice.web = value.web === true;
  } catch {
    // written by something else
  }
  return choice;
}

function read(): string | null {
  try {
    return localStorage.getItem(NAME);
  } catch {
    return null; // the browser allows no storage
  }
}

export const choice = $state<Choice>(parseChoice(read()));

export function choose(change: Partial<Choice>): void {
  Object.assign(choice, change);
  try {
    localStorage.setItem(NAME, JSON.stringify(choice));
  } catch {
    // no storage: the choice lasts until the page is closed
  }
}
