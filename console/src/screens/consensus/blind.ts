// Blind reading: "Model A" instead of names, in a shuffled order that stays the same after a reload.

/** A permutation of 0 … count-1 that depends on the job's id only. */
export function shuffled(count: number, seed: string): number[] {
  const order = Array.from({ length: count }, (_, index) => index);
  const random = randomFrom(seed);
  for (let index = count - 1; index > 0; index -= 1) {
    const other = Math.floor(random() * (index + 1));
    [order[index], order[other]] = [order[other] as number, order[index] as number];
  }
  return order;
}

/** A random generator: xorshift32, seeded with an FNV-1a hash. */
function randomFrom(seed: string): () => number {
  let state = 0x811c9dc5;
  for (let index = 0; index < seed.length; index += 1) state = Math.imul(state ^ seed.charCodeAt(index), 0x01000193);
  state ||= 1;
  return () => {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    return (state >>> 0) / 2 ** 32;
  };
}

/** A, B … Z, AA … for the position in the shuffled order. */
export function letter(position: number): string {
  const last = String.fromCharCode(65 + (position % 26));
  return position < 26 ? last : letter(Math.floor(position / 26) - 1) + last;
}

export interface Hidden {
  names: string[]; // all names of one model: as requested, its id, its label
  label: string; // "Model A"
}

/** Replaces every name of the models in a text. `hints` (vendors, families) become `▒▒▒`. */
export function masker(models: Hidden[], hints: string[]): (text: string, live?: boolean) => string {
  const replacements = new Map<string, string>();
  for (const hint of hints) if (hint.length > 1) replacements.set(hint.toLowerCase(), '▒▒▒');
  for (const model of models) {
    for (const name of model.names) {
      const key = name.toLowerCase();
      if (name) replacements.set(key, replacements.has(key) && replacements.get(key) !== model.label ? '▒▒▒' : model.label);
    }
  }
  const names = [...replacements.keys()].sort((a, b) => b.length - a.length);
  if (names.length === 0) return (text) => text;
  const pattern = new RegExp(`(?<![\\p{L}\\p{N}])(?:${names.map(escape).join('|')})(?![\\p{L}\\p{N}])`, 'giu');
  const hide = (text: string): string => text.replace(pattern, (name) => replacements.get(name.toLowerCase()) ?? '▒▒▒');
  const lines = new LineCache(hide);
  return (text, live = false) => lines.hidden(live ? withoutNamePrefix(text, names) : text);
}

/** Masks growing texts. Only the last line is masked again: no name contains a line break. */
class LineCache {
  private readonly hide: (text: string) => string;
  private readonly known = new Map<string, { plain: string; hidden: string }>(); // by the beginning of a text

  constructor(hide: (text: string) => string) {
    this.hide = hide;
  }

  hidden(text: string): string {
    const end = text.lastIndexOf('\n') + 1;
    if (end < SHORT) return this.hide(text);
    const key = text.slice(0, SHORT);
    const cached = this.known.get(key);
    const start = cached && text.startsWith(cached.plain) ? cached.plain.length : 0;
    const hidden = (start > 0 ? (cached?.hidden ?? '') : '') + this.hide(text.slice(start, end));
    this.known.set(key, { plain: text.slice(0, end), hidden });
    return hidden + this.hide(text.slice(end));
  }
}

const SHORT = 200; // characters: shorter texts are masked faster than looked up

/** The text without an end that may be the beginning of a name. It is shown when more text has arrived. */
function withoutNamePrefix(text: string, names: string[]): string {
  const longest = names[0]?.length ?? 0;
  const tail = text.slice(-longest).toLowerCase();
  for (let size = tail.length; size > 0; size -= 1) {
    const end = tail.slice(-size);
    if (names.some((name) => name.startsWith(end))) return text.slice(0, text.length - size);
  }
  return text;
}

function escape(text: string): string {
  return text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');
}

/** Words that reveal the vendor: "gpt-6.1-sol" → "gpt". */
export function families(names: string[]): string[] {
  return [...new Set(names.flatMap((name) => name.toLowerCase().match(/[a-z]{3,}/g) ?? []))].filter((word) => !PLAIN.has(word));
}

/** Words of model names that are also plain English. */
const PLAIN = new Set(['auto', 'latest', 'mini', 'nano', 'pro', 'large', 'small', 'medium', 'fast', 'lite', 'flash', 'max', 'code', 'preview', 'high', 'low', 'build', 'chat', 'the', 'tiny', 'instruct', 'embedded', 'model', 'free', 'beta', 'thinking', 'reasoning', 'turbo', 'plus', 'next', 'local', 'open', 'vision']);
